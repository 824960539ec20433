"""Levels follow proficiency, by the rule of each schedule."""

import pytest

from clawloop.synthesis.difficulty.aggressive import Aggressive
from clawloop.synthesis.difficulty.moderate import Moderate
from clawloop.synthesis.difficulty.none import NoGrowth
from clawloop.types import DiagnosisReport, Proficiency


def report(level: int, passes: int, trials: int) -> DiagnosisReport:
    return DiagnosisReport(1, proficiency={"audit": Proficiency(level, passes, trials)})


@pytest.mark.parametrize(
    ("seen", "level"),
    [
        ((1, 7, 10), 2),
        ((1, 6, 10), 1),
        ((2, 1, 10), 2),
        ((2, 0, 10), 1),
        ((0, 0, 10), 0),
        ((4, 10, 10), 4),
        ((1, 7, 7), 1),
        ((1, 0, 7), 1),
    ],
)
def test_moderate_moves_by_one(seen: tuple[int, int, int], level: int) -> None:
    assert Moderate().mix(["audit"], report(*seen)) == {"audit": {level: 1.0}}


def test_aggressive_moves_by_two_and_never_back() -> None:
    assert Aggressive().mix(["audit"], report(1, 3, 10)) == {"audit": {3: 1.0}}
    assert Aggressive().mix(["audit"], report(3, 3, 10)) == {"audit": {4: 1.0}}
    assert Aggressive().mix(["audit"], report(3, 0, 10)) == {"audit": {3: 1.0}}
    assert Moderate().mix(["audit"], report(1, 3, 10)) == {"audit": {1: 1.0}}


@pytest.mark.parametrize("schedule", [NoGrowth, Moderate, Aggressive])
def test_what_was_not_seen_begins_at_the_start(schedule: type) -> None:
    seen = report(1, 10, 10)
    assert schedule(start=2).mix(["merge"], seen) == {"merge": {2: 1.0}}
    assert schedule().mix(["merge"], DiagnosisReport.empty()) == {"merge": {0: 1.0}}
    assert schedule().mix([], seen) == {}


def test_none_never_moves() -> None:
    assert NoGrowth(start=1).mix(["audit"], report(1, 10, 10)) == {"audit": {1: 1.0}}


def test_arguments_are_checked() -> None:
    with pytest.raises(ValueError, match="difficulty moderate"):
        Moderate(raise_at=0.1, lower_at=0.2)
    with pytest.raises(ValueError, match="difficulty aggressive"):
        Aggressive(start=5)
