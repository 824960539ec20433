"""Failures are attributed by rule, aggregated and turned into proficiency."""

from typing import Any

import pytest

from clawloop.diagnosis.aggregate import aggregate
from clawloop.diagnosis.attribute import Rules
from clawloop.diagnosis.diagnose import Diagnose
from clawloop.types import (
    Card,
    Contract,
    Decision,
    Deliverable,
    DiagnosisReport,
    Evidence,
    FailureSummary,
    FieldResult,
    Outcome,
    Proficiency,
    Rollout,
    RolloutGroup,
    RootCause,
    Stop,
    Task,
    Trajectory,
    Turn,
    Verdict,
    Verifier,
    Workspace,
)

POLICY: Any = None
WROTE = Turn("```bash\n...```", "wc -l a.csv > out/n.txt", "exit 0", 0, 0.1)
DONE = Turn("done", None, "", None, 0.1)


def task(capability: str = "audit", level: int = 1, id: str = "t") -> Task:
    contract = Contract((Decision("rounding", "half up"),), (Deliverable("out/n.txt", "text"),))
    card = Card("capability", capability, "analysis", "bees", level, "text", 1, id)
    return Task(id, "Count.", Workspace({}), Verifier("", "{}"), contract, card)


def trial(*turns: Turn, stop: Stop = Stop.SUBMITTED, reasons: dict[str, str] | None = None) -> Rollout:
    trajectory = Trajectory("t", "shell", "theta_1", turns, (), stop, 1.0)
    if stop is not Stop.SUBMITTED:
        return Rollout("t", 0, Outcome.AGENT_FAILED, 0.0, trajectory, None)
    fields = tuple(FieldResult(name, not reason, reason) for name, reason in (reasons or {"n": "wrong_value"}).items())
    return Rollout("t", 0, Outcome.SCORED, 0.0, trajectory, Verdict(False, fields))


def judged(reward: float | None) -> Rollout:
    outcome = Outcome.SCORED if reward is not None else Outcome.INFRASTRUCTURE_FAILED
    trajectory = Trajectory("t", "shell", "theta_1", (WROTE, DONE), (), Stop.SUBMITTED, 1.0)
    return Rollout("t", 0, outcome, reward, trajectory, Verdict(reward == 1.0, ()))


@pytest.mark.parametrize(
    ("rollout", "cause", "point"),
    [
        (trial(WROTE, WROTE, stop=Stop.TURNS), RootCause.OVER_BUDGET, "turn 2: wc -l"),
        (trial(WROTE, stop=Stop.TIME), RootCause.OVER_BUDGET, "turn 1: wc -l"),
        (trial(stop=Stop.CONTEXT), RootCause.OVER_BUDGET, "before the first turn"),
        (trial(DONE, reasons={"n": "missing"}), RootCause.STOPPED_EARLY, "turn 1: done"),
        (
            trial(Turn("", "cat a.csv", "exit 0", 0, 0.1), DONE, reasons={"n": "missing"}),
            RootCause.STOPPED_EARLY,
            "turn 2: done",
        ),
        (
            trial(Turn("", "cuont a.csv >\n out/n.txt", "exit 127", 127, 0.1), DONE, reasons={"n": "missing"}),
            RootCause.WRONG_TOOL,
            "turn 1: cuont a.csv > out/n.txt",
        ),
        (trial(WROTE, DONE, stop=Stop.CRASHED), RootCause.WRONG_TOOL, "turn 2: done"),
        (trial(Turn("", "wc -l a.csv > out/n.txt", "3", None, 0.1), DONE), RootCause.MISUNDERSTOOD, "turn 1: wc -l"),
        (trial(Turn("", "sleep 99", "stopped: timeout", None, 20.0), DONE), RootCause.WRONG_TOOL, "turn 1: sleep 99"),
        (
            trial(Turn("", "nope | wc -l", "exit 0\nbash: line 1: nope: command not found", 0, 0.1), WROTE, DONE),
            RootCause.WRONG_TOOL,
            "turn 1: nope",
        ),
        (trial(WROTE, DONE, reasons={"a.log": "still_there"}), RootCause.WRONG_EDIT, "turn 1: wc -l"),
        (trial(WROTE, DONE, reasons={"n": "", "a.csv": "changed: 3 lines"}), RootCause.WRONG_EDIT, "turn 1: wc -l"),
        (trial(WROTE, DONE), RootCause.MISUNDERSTOOD, "turn 1: wc -l a.csv > out/n.txt"),
        (trial(WROTE, DONE, reasons={"n": "missing"}), RootCause.MISUNDERSTOOD, "turn 1: wc -l"),
    ],
)
def test_root_causes(rollout: Rollout, cause: RootCause, point: str) -> None:
    summary = Rules()(POLICY, task(), rollout)
    assert (summary.root_cause, summary.task_id, summary.capability, summary.level) == (cause, "t", "audit", 1)
    assert summary.failure_point.startswith(point) and len(summary.failure_point) <= 160
    assert summary.missing_capability.endswith(".")


def test_the_missing_capability_names_what_was_wrong() -> None:
    wrong = Rules()(POLICY, task(), trial(WROTE, DONE, reasons={"total": "wrong_type", "id": ""}))
    assert wrong.missing_capability == "Follow the contract on rounding to get total (wrong_type) right."
    assert "turns" in Rules()(POLICY, task(), trial(WROTE, stop=Stop.TURNS)).missing_capability


@pytest.mark.parametrize("reward", [1.0, None])
def test_only_judged_failures_have_a_root_cause(reward: float | None) -> None:
    with pytest.raises(ValueError, match="no judged failure"):
        Rules()(POLICY, task(), judged(reward))


def summary(capability: str, cause: RootCause, missing: str, point: str = "turn 1: x") -> FailureSummary:
    return FailureSummary("t", capability, 1, point, cause, missing)


def test_patterns_are_counted_most_frequent_first() -> None:
    edit, tool = RootCause.WRONG_EDIT, RootCause.WRONG_TOOL
    given = [
        summary("merge", tool, "b", "turn 9: y"),
        summary("audit", tool, "a"),
        summary("merge", edit, "c"),
        summary("merge", tool, "d"),
        summary("merge", tool, "d"),
    ]
    found = aggregate(given)
    assert [(p.capability, p.root_cause, p.count) for p in found] == [
        ("merge", tool, 3),
        ("audit", tool, 1),
        ("merge", edit, 1),
    ]
    assert found[0].missing_capability == "d" and found[0].example == "turn 9: y"
    reordered = aggregate(reversed(given))
    assert [(p.capability, p.root_cause) for p in reordered] == [(p.capability, p.root_cause) for p in found]
    assert aggregate([]) == ()


def test_the_report() -> None:
    def group(rewards: list[float | None], **of: Any) -> RolloutGroup:
        return RolloutGroup(task(**of), tuple(map(judged, rewards)))

    admission = (
        group([1.0, 0.0, None, 1.0], id="held"),
        group([1.0, 1.0], level=0, id="easy"),
        group([None], level=2),
        group([0.0, 0.0], capability="merge", id="hard"),
        group([None], capability="rates"),
    )
    trials = (group([0.0], id="held"), group([1.0]), group([None]), group([0.0], capability="merge"))
    known = Evidence(1, "audit", 0, ((3, 8),))
    report = Diagnose(Rules())(POLICY, trials, admission, DiagnosisReport(1, evidence=(known,)), 2)
    assert report.k == 2
    assert [(s.task_id, s.capability) for s in report.summaries] == [("held", "audit"), ("t", "merge")]
    assert sum(p.count for p in report.patterns) == 2
    assert report.proficiency == {"audit": Proficiency(1, 3, 5), "merge": Proficiency(1, 0, 3)}
    assert report.evidence == (
        known,
        Evidence(2, "audit", 0, ((2, 2),)),
        Evidence(2, "audit", 1, ((2, 3),), ((2, 3, 0, 1),)),
        Evidence(2, "merge", 1, ((0, 2),)),
    )
