"""Synthesis shares cards over routines, and its result does not depend on timing."""

import json
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clawloop.protocols import InfrastructureError
from clawloop.store.ledger import Ledger
from clawloop.synthesis.difficulty.moderate import Moderate
from clawloop.synthesis.synthesize import Synthesize
from clawloop.types import Card, CommandResult, DiagnosisReport, Draft, Generator, Proficiency, Workspace

REPORT = DiagnosisReport(1, proficiency={"audit": Proficiency(1, 8, 8)})
POLICY: Any = None


class Box:
    """Plays a generator: answers with the program, after the pause that the program names."""

    def __init__(self, program: str) -> None:
        self.program = program

    def run(self, command: list[str], **_: object) -> CommandResult:
        what, _, pause = self.program.partition(" ")
        time.sleep(float(pause or 0))
        if what == "broken":
            raise InfrastructureError("the box is gone")
        item = {"path": "n.txt", "form": "text"}
        value = {
            "files": {"a": "b"},
            "instruction": f"{what} {command[-1]}",
            "answer": {"n": 1},
            "contract": {"decisions": [], "deliverables": [item]},
            "oracle": ["true"],
            "verifier": "print()",
        }
        return CommandResult(1 if what == "failing" else 0, json.dumps(value).encode(), b"oh no\n")


class Boxes:
    def open(self, workspace: Workspace, *_: object, **__: object) -> AbstractContextManager[Any]:
        return nullcontext(Box(workspace.files["generator.py"].decode()))


class Drawn:
    def __init__(self, route: str, *capabilities: str, short: int = 0) -> None:
        self.route, self.capabilities, self.short = route, capabilities, short

    def cards(self, count: int, report: DiagnosisReport, seed: int) -> tuple[Card, ...]:
        names = [self.capabilities[i % len(self.capabilities)] for i in range(count - self.short)]
        return tuple(
            Card(self.route, name, "analysis", "bees", 0, "json", seed + i, f"{name}/{i}")
            for i, name in enumerate(names)
        )


class Written:
    def __init__(self, *programs: str) -> None:
        self.programs = programs

    def write(self, card: Card, policy: object, report: DiagnosisReport) -> Draft:
        return Draft(Generator(self.programs[int(card.lineage.split("/")[1]) % len(self.programs)], card.seed))


class Longer:
    def __init__(self, mark: str) -> None:
        self.mark = mark

    def grow(self, card: Card) -> Card:
        return replace(card, growth=(*card.growth, self.mark)) if card.level > 1 else card


def made(author: Written, count: int = 7, workers: int = 4, seed: int = 0, k: int = 2, **more: Any) -> Any:
    routines = [Drawn("capability", "audit", "merge"), Drawn("domain", "merge")]
    growth = {"hop": Longer("hop"), "dirt": Longer("dirt")}
    return Synthesize(routines, author, growth, Moderate(), Boxes(), count, seed, workers, **more)(POLICY, REPORT, k)


def test_cards_are_shared_levelled_and_grown() -> None:
    found = made(Written("fine"))
    assert [c.id for c in found] == [f"k2-{i:04d}" for i in range(7)]
    assert [c.card.route for c in found] == ["capability"] * 4 + ["domain"] * 3
    assert [c.card.level for c in found] == [2, 0, 2, 0, 0, 0, 0]
    assert [c.card.growth for c in found][:2] == [("hop", "dirt"), ()]
    assert all(c.task.id == c.id and c.task.instruction == f"fine {c.card.seed}" for c in found)


def test_order_does_not_depend_on_timing() -> None:
    slow = made(Written("fine 0.05", "fine 0", "fine 0.02"))
    again = made(Written("fine 0", "fine 0.05", "fine 0.02"), workers=1)
    assert [(c.id, c.card) for c in slow] == [(c.id, c.card) for c in again]


def test_what_is_on_the_shelf_is_not_made_again(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    first = made(Written("fine"), shelf=ledger)
    assert ledger.candidates(2) == first
    assert made(Written("broken"), shelf=ledger) == first
    with pytest.raises(InfrastructureError):
        made(Written("broken"), shelf=ledger, seed=1)


def test_a_killed_synthesis_goes_on_where_it_was(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    with pytest.raises(InfrastructureError):
        made(Written("fine", "fine", "broken"), shelf=ledger, workers=1)
    assert [ledger.candidate(f"k2-000{i}") is not None for i in range(3)] == [True, True, False]
    assert made(Written("fine"), shelf=ledger) == ledger.candidates(2)


def test_seed_and_iteration_decide_the_cards() -> None:
    seeds = {made(Written("fine"), seed=seed, k=k)[0].card.seed for seed in (0, 1) for k in (1, 2)}
    assert len(seeds) == 4
    assert made(Written("fine")) == made(Written("fine"))


def test_a_failed_generator_is_a_finding() -> None:
    found = made(Written("fine", "failing"))
    failed = [c for c in found if c.task is None]
    assert len(failed) == 3 and len(found) == 7
    assert failed[0].findings[0].check == "generator" and not failed[0].findings[0].passed
    assert "oh no" in failed[0].findings[0].reason and failed[0].generator.program == "failing"


def test_a_broken_box_is_no_finding() -> None:
    with pytest.raises(InfrastructureError):
        made(Written("fine", "broken"))


def test_progress_and_arguments() -> None:
    told: list[tuple[str, int, int]] = []
    made(Written("fine"), count=3, progress=lambda *at: told.append(at))
    assert told == [("k2/synthesis", i, 3) for i in (1, 2, 3)]
    with pytest.raises(ValueError, match="at least one routine"):
        Synthesize({}, Written("fine"), {}, Moderate(), Boxes(), 3, 0)
    with pytest.raises(ValueError, match="gave 2 cards where 3"):
        Synthesize([Drawn("x", "audit", short=1)], Written("fine"), {}, Moderate(), Boxes(), 3, 0)(POLICY, REPORT, 1)
