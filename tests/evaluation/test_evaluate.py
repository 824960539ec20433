"""The probe logs what it should, once per theta, and asks for its trials by name."""

from collections.abc import Mapping

import pytest

from clawloop.evaluation.evaluate import Probe, measure
from clawloop.types import Card, Contract, Outcome, Rollout, RolloutGroup, Task, Verifier, Workspace


def task(name: str, level: int, capability: str) -> Task:
    card = Card("capability", capability, "analysis", "bees", level, "json", 1, name)
    return Task(name, "do", Workspace(), Verifier("", ""), Contract((), ()), card)


TASKS = (task("a", 0, "merge"), task("b", 0, "audit"), task("c", 1, "audit"))
REWARDS: dict[str, dict[str, list[float | None]]] = {
    "probe/0": {"a": [0.0, 0.0], "b": [1.0, 0.0], "c": [0.0, None]},
    "probe/1": {"a": [1.0, 0.0], "b": [1.0, 1.0], "c": [None, None]},
}


class RollOut:
    def __init__(self, rewards: Mapping[str, Mapping[str, list[float | None]]]) -> None:
        self.rewards, self.asked = rewards, []

    def __call__(self, policy: object, tasks: tuple[Task, ...], n: int, at: str) -> tuple[RolloutGroup, ...]:
        self.asked.append((at, n))
        return tuple(
            RolloutGroup(
                t,
                tuple(
                    Rollout(t.id, j, Outcome.GRADER_FAILED if r is None else Outcome.SCORED, r, None, None)
                    for j, r in enumerate(self.rewards[at][t.id])
                ),
            )
            for t in tasks
        )


class Tracker:
    def __init__(self) -> None:
        self.logged: list[tuple[str, int, dict[str, float]]] = []

    def log(self, axis: str, step: int, values: Mapping[str, float]) -> None:
        self.logged.append((axis, step, dict(values)))


def test_logs_rates_and_the_difference_from_theta_0() -> None:
    roll_out, tracker = RollOut(REWARDS), Tracker()
    probe = Probe(TASKS, 2, roll_out, tracker)  # type: ignore[arg-type]
    probe(object(), 0)  # type: ignore[arg-type]
    probe(object(), 1)  # type: ignore[arg-type]
    assert [(axis, step) for axis, step, _ in tracker.logged] == [("probe", 0), ("probe", 1)]
    first, second = (values for _, _, values in tracker.logged)
    assert first["pass_rate"] == pytest.approx(0.5 / 3) and first["coverage"] == pytest.approx(5 / 6)
    assert first["low"] <= first["pass_rate"] <= first["high"]
    assert first["level_0/pass_rate"] == 0.25 and first["level_1/pass_rate"] == 0.0
    assert first["level_1/coverage"] == 0.5
    assert first["capability_audit/pass_rate"] == 0.25
    assert "difference" not in first
    assert second["difference"] == 0.5 and second["difference_coverage"] == pytest.approx(8 / 12)
    assert second["difference_low"] < 0.5 < second["difference_high"]
    assert "level_1/pass_rate" not in second and second["level_1/coverage"] == 0.0
    assert ("probe/1", 2) in roll_out.asked


def test_a_probe_that_broke_everywhere_says_so() -> None:
    broken = {"probe/0": {"a": [None, None], "b": [None, None], "c": [None, None]}}
    groups = RollOut(broken)(object(), TASKS, 2, "probe/0")
    values = measure(groups)
    assert values["coverage"] == 0.0 and not any(name.endswith("pass_rate") for name in values)
    tracker = Tracker()
    probe = Probe(TASKS, 2, RollOut({**broken, "probe/1": broken["probe/0"]}), tracker)  # type: ignore[arg-type]
    probe(object(), 1)  # type: ignore[arg-type]
    assert "difference" not in tracker.logged[0][2]


def test_works_without_a_tracker_and_without_tasks() -> None:
    Probe(TASKS, 2, RollOut(REWARDS))(object(), 1)  # type: ignore[arg-type]
    assert measure(()) == {"coverage": 1.0}
