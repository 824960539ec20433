"""How different tasks are, on made-up sets of them."""

from dataclasses import replace

import pytest

from clawloop.report.diversity import diversity
from clawloop.types import Candidate, Card, Contract, Generator, Task, Verifier, Workspace

LONG = "Sum the frames of every hive whose state is open and write the total as JSON to the file out.json"


def made(instruction: str, capability: str = "merge", domain: str = "bees", form: str = "json") -> Candidate:
    card = Card("capability", capability, "analysis", domain, 0, form, 1, "x")
    task = Task("t", instruction, Workspace(), Verifier("", ""), Contract((), ()), card)
    return Candidate("t", card, Generator("", 1), task)


def test_cells_and_coverage() -> None:
    given = [made("a", c, d, f) for c, d, f in (("x", "p", "json"), ("x", "p", "json"), ("y", "q", "csv"))]
    found = diversity(given)
    assert (found["capabilities"], found["domains"], found["forms"], found["cells"]) == (2, 2, 2, 2)
    assert found["coverage"] == pytest.approx(2 / 3), "three tasks could have had three of the eight"
    assert diversity(given[1:])["coverage"] == 1.0
    assert diversity([*given, *given, *given])["coverage"] == pytest.approx(2 / 8)


@pytest.mark.parametrize(
    ("instructions", "share"),
    [
        ([LONG, LONG], 1 / 2),
        ([LONG, LONG.upper().replace(" ", "  "), LONG], 2 / 3),
        ([LONG, LONG + " now"], 1 / 2),
        ([LONG, LONG.replace("frames", "weights").replace("open", "shut").replace("total", "sum")], 0.0),
        ([LONG, "Rename old.txt to new.txt."], 0.0),
        (["Rename a to b.", LONG, "Rename a to b."], 1 / 3),
    ],
)
def test_near_duplicates(instructions: list[str], share: float) -> None:
    assert diversity(map(made, instructions))["near_duplicates"] == pytest.approx(share)


def test_length_and_nothing() -> None:
    assert diversity([made("one two"), made("one two three four")])["instruction_words"] == 3.0
    nothing = diversity([replace(made("a"), task=None)])
    assert nothing["cells"] == 0
    assert nothing["coverage"] is nothing["near_duplicates"] is nothing["instruction_words"] is None
