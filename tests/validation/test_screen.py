"""Screening keeps order, every finding, and nothing but the task."""

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from clawloop.protocols import InfrastructureError
from clawloop.rollout.grade import SandboxGrader
from clawloop.sandbox.bubblewrap import Bubblewrap
from clawloop.types import Candidate, Finding
from clawloop.validation.check.deterministic import Deterministic
from clawloop.validation.check.leakage import Leakage
from clawloop.validation.check.oracle import Oracle
from clawloop.validation.check.trivial import Trivial
from clawloop.validation.screen import Screen

Make = Callable[..., Candidate]


class Says:
    """A check that fails the candidates whose id ends in one of `fails`, after a pause."""

    def __init__(self, name: str, fails: str = "", pause: float = 0.0) -> None:
        self.name, self.fails, self.pause, self.seen = name, fails, pause, set[str]()

    def __call__(self, candidate: Candidate) -> Finding:
        time.sleep(self.pause if candidate.id.endswith("0") else 0)
        self.seen.add(candidate.id)
        failed = candidate.id[-1] in self.fails
        return Finding(self.name, not failed, "no good" if failed else "")


def candidates(make: Make, count: int) -> tuple[Candidate, ...]:
    sound = make()
    assert sound.task is not None
    return tuple(replace(sound, id=f"c{i}", task=replace(sound.task, id=f"c{i}")) for i in range(count))


def test_the_first_failure_ends_it(make: Make) -> None:
    first, second = Says("first", "1", pause=0.05), Says("second", "2")
    given = candidates(make, 5)
    given = (*given[:4], replace(given[4], task=None, findings=(Finding("generator", False, "it broke"),)))
    told: list[tuple[str, int, int]] = []
    screening = Screen({"a": first, "b": second}, workers=3, progress=lambda *at: told.append(at))(given, 2)
    assert [task.id for task in screening.tasks] == ["c0", "c3"]
    assert list(screening.findings) == ["c0", "c1", "c2", "c3", "c4"]
    assert screening.findings["c0"] == (Finding("first", True), Finding("second", True))
    assert screening.findings["c1"] == (Finding("first", False, "no good"),)
    assert screening.findings["c2"][1] == Finding("second", False, "no good")
    assert screening.findings["c4"] == (Finding("generator", False, "it broke"),)
    assert second.seen == {"c0", "c2", "c3"} and first.seen == {"c0", "c1", "c2", "c3"}
    assert told[-1] == ("k2/screening", 5, 5)


def test_a_broken_box_ends_the_phase(make: Make) -> None:
    def broken(candidate: Candidate) -> Finding:
        raise InfrastructureError("the box is gone")

    with pytest.raises(InfrastructureError):
        Screen({"a": broken})(candidates(make, 3), 1)


def test_all_checks_together(make: Make, boxes: Bubblewrap, grader: SandboxGrader) -> None:
    checks = {
        "leakage": Leakage(),
        "deterministic": Deterministic(boxes),
        "oracle": Oracle(boxes, grader),
        "trivial": Trivial(grader),
    }
    given = (
        make(id="sound"),
        make("task['instruction'] += f' The total is {answer[\"total\"]}.'", id="leaky"),
        make("import time; time.time()", id="clock"),
        make("task['oracle'] = ['true']", id="oracle"),
        make("task['verifier'] = 'print(\\'{\"fields\": {\"total\": null}}\\')'", id="free"),
    )
    screening = Screen(checks)(given, 1)
    assert [task.id for task in screening.tasks] == ["sound"]
    last = {id: found[-1].check for id, found in screening.findings.items()}
    assert last == {
        "sound": "trivial",
        "leaky": "leakage",
        "clock": "deterministic",
        "oracle": "oracle",
        "free": "trivial",
    }
