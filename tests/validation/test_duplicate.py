"""What a model writes twice is refused, whatever the names and numbers in it, now and in later iterations."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from clawloop.sandbox.bubblewrap import Bubblewrap
from clawloop.store.ledger import Ledger
from clawloop.synthesis.generator import candidate, run
from clawloop.types import Attempt, Candidate, Finding, Generator
from clawloop.validation.check.duplicate import Duplicate, skeleton
from clawloop.validation.screen import Screen

Make = Callable[..., Candidate]
WRITTEN = (Attempt((), "a program"),)
OTHER = {
    "hives": "barns", "frames": "horses", "state": "roof", "shut": "gone", "total": "herd",
    "rows": "stalls", "rng": "dice", "range(12)": "range(17)", "seed": "start",
}  # fmt: skip


@pytest.fixture(scope="module")
def told(make: Make, boxes: Bubblewrap) -> Callable[..., Candidate]:
    """The sound candidate after replacements in its program, as a model wrote it, or as the project ships it."""

    def made(id: str, changes: dict[str, str] | None = None, *, shipped: bool = False) -> Candidate:
        program = make().generator.program
        for old, new in (changes or {}).items():
            assert old in program
            program = program.replace(old, new)
        generator = Generator(program, 5)
        made = candidate(id, make().card, generator, run(generator, boxes))
        return replace(made, attempts=() if shipped else WRITTEN)

    return made


def refusals(*candidates: Candidate, earlier: tuple[Candidate, ...] = ()) -> dict[str, str]:
    screening = Screen({"duplicate": Duplicate()}, lambda k: earlier)(candidates, 2)
    return {id: found[-1].reason for id, found in screening.findings.items() if not found[-1].passed}


def test_other_names_and_numbers_are_no_other_task(told: Make) -> None:
    first, again = told("k2-0000"), told("k2-0001", OTHER)
    assert first.task is not None and again.task is not None
    assert again.task.instruction == "Sum the horses of the open barns in barns.csv."
    reason = "but for names and numbers, program and instruction are those of k2-0000."
    assert refusals(first, again) == {"k2-0001": reason}
    assert refusals(again, earlier=(first,)) == {"k2-0001": reason}


@pytest.mark.parametrize(
    "changes",
    [
        {"Sum the frames of": "How many frames have"},
        {"state is open": "state is open, rounded to tens"},
        {"sum(c for": "max(c for"},
        {'if b == "open"': 'if b != "open"', '$2=="open"': '$2!="open"'},
        {"rows = [": "rows = sorted([", "in range(12)]": "in range(12)])"},
    ],
)
def test_other_words_or_another_structure_make_another_task(told: Make, changes: dict[str, str]) -> None:
    assert refusals(told("k2-0000"), told("k2-0001", changes)) == {}


def test_programs_that_the_project_ships_share_their_structure_on_purpose(told: Make) -> None:
    first, second = told("k2-0000", shipped=True), told("k2-0001", shipped=True)
    assert refusals(first, second) == {}
    assert refusals(told("k2-0002"), earlier=(first,)) == {}


def test_a_task_that_was_refused_is_no_first(told: Make) -> None:
    failing = replace(told("k2-0000"), findings=(Finding("oracle", False, "wrong"),))
    assert list(refusals(failing, told("k2-0001"), told("k2-0002"))) == ["k2-0000", "k2-0002"]


def test_the_ledger_knows_what_was_sound(told: Make, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    names = ("k-1-0000", "k1-0000", "k1-0001", "k2-0000")
    probe, first, again, later = (replace(told(name), id=name) for name in names)
    ledger.add_candidates(0, (probe,))
    ledger.add_candidates(1, (first, again))
    ledger.add_findings(Screen({"duplicate": Duplicate()})((first, again), 1).findings)
    ledger.add_candidates(2, (later,))
    assert [candidate.id for candidate in ledger.sound(2)] == ["k-1-0000", "k1-0000"]
    screening = Screen({"duplicate": Duplicate()}, ledger.sound)((later,), 2)
    assert screening.findings["k2-0000"][-1].reason.endswith("of k-1-0000.")


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        ("f(['a', 'b'], 3)", "f(['c'], 44)", True),
        ("f({'a': 1})", "f({'c': 2, 'd': -3})", True),
        ("f(a=1)", "f(b=1)", False),
        ("import random as r\nr.choice([1])", "import random\nrandom.choice([2, 3])", True),
        ("x = [y for y in 'ab']", "u = [v for v in 'c']", True),
        ("x = 1\nprint(x)", "x = 1\nprint(x, x)", False),
        ("x = f'{1}a'", "x = f'{2}b'", True),
        ("x = 1", "x = '1'", False),
        ("def f(:", "def g(:", False),
    ],
)
def test_a_skeleton_keeps_structure_and_nothing_else(one: str, two: str, same: bool) -> None:
    assert (skeleton(one) == skeleton(two)) is same
