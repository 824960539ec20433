"""A small run, made by hand: two iterations of one capability that gets harder."""

from collections.abc import Sequence

import pytest

from clawloop.report.summary import Iteration, Record
from clawloop.types import (
    Candidate,
    Card,
    Contract,
    Finding,
    Generator,
    Outcome,
    Rollout,
    RolloutGroup,
    Screening,
    Stop,
    Task,
    TokenTrace,
    Trajectory,
    Turn,
    Verifier,
    Workspace,
)


def task(name: str, level: int = 0, capability: str = "merge") -> Task:
    """A task that only its card tells from another."""
    card = Card("capability", capability, "analysis", "bees", level, "json", 1, name)
    return Task(name, "do", Workspace(), Verifier("", ""), Contract((), ()), card)


def trajectory(name: str, turns: int, tokens: int) -> Trajectory:
    """An episode of so many turns and tokens."""
    trace = TokenTrace((1,) * tokens, (1,) * tokens, (0.0,) * tokens)
    return Trajectory(name, "shell", "theta_0", (Turn("a", "ls", "", 0, 0.1),) * turns, (trace,), Stop.SUBMITTED, 1.0)


def group(of: Task, rewards: Sequence[float | None], turns: int = 1, tokens: int = 100) -> RolloutGroup:
    """Trials with these rewards; None is an infrastructure failure."""
    return RolloutGroup(
        of,
        tuple(
            Rollout(of.id, j, Outcome.INFRASTRUCTURE_FAILED, None, None, None, "the box broke")
            if reward is None
            else Rollout(of.id, j, Outcome.SCORED, reward, trajectory(of.id, turns, tokens), None)
            for j, reward in enumerate(rewards)
        ),
    )


def candidate(of: Task, *, made: bool = True) -> Candidate:
    """What a generator made, or failed to make."""
    failed = () if made else (Finding("generator", False, "it printed no JSON"),)
    return Candidate(of.id, of.card, Generator("", 1), of if made else None, findings=failed)


@pytest.fixture
def record() -> Record:
    """Iteration 1: 5 candidates, 3 sound, 2 admitted. Iteration 2: 2 candidates, both sound, none admitted."""
    a, b, c, d, e = (task(name) for name in "abcde")
    f, g = task("f", 1), task("g", 1)
    fine, bad = Finding("oracle", True), Finding("oracle", False, "total: wrong_value")
    first = Iteration(
        k=1,
        candidates=(*(candidate(t) for t in (a, b, c, d)), candidate(e, made=False)),
        screening=Screening(
            (a, b, c),
            {"a": (fine,), "b": (fine,), "c": (fine,), "d": (bad,), "e": (Finding("generator", False, "it stopped"),)},
        ),
        admission=(
            group(a, [1.0, 0.0, 0.0, 1.0], turns=2, tokens=100),
            group(b, [0.0, 1.0, None, 0.0], turns=9, tokens=900),
            group(c, [1.0, 1.0, 1.0, 1.0], turns=1, tokens=50),
        ),
        practice=("a",),
        held_out=("b",),
        trials=(group(b, [1.0]),),
        seconds={"roll_out": 2.5, "synthesize": 1.0},
    )
    second = Iteration(
        k=2,
        candidates=(candidate(f), candidate(g)),
        screening=Screening((f, g), {"f": (fine,), "g": (fine,)}),
        admission=(group(f, [0.0] * 4), group(g, [0.0] * 4)),
        practice=(),
        held_out=(),
    )
    probe = {
        0: {"pass_rate": 0.3, "low": 0.2, "high": 0.4, "coverage": 1.0, "trials": 80.0, "tasks": 40.0},
        1: {"coverage": 0.0},
        2: {
            "pass_rate": 0.45,
            "low": 0.35,
            "high": 0.55,
            "coverage": 0.975,
            "trials": 78.0,
            "tasks": 40.0,
            "level_0/pass_rate": 0.6,
            "level_0/coverage": 1.0,
            "difference": 0.15,
            "difference_low": 0.05,
            "difference_high": 0.25,
            "difference_coverage": 0.9875,
        },
    }
    return Record((first, second), probe, "c0ffee", "0.1.0", seed=3, wall_s=123.4)
