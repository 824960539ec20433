"""Tasks and trials of which only what a test names matters."""

from clawloop.types import (
    Card,
    Contract,
    Outcome,
    Rollout,
    Stop,
    Task,
    TokenTrace,
    Trajectory,
    Verifier,
    Workspace,
)


def bare(name: str) -> Task:
    """A task of empty parts."""
    card = Card("capability", "audit", "analysis", "apiary", 0, "json", 0, name)
    return Task(name, "", Workspace(), Verifier("", ""), Contract((), ()), card)


def trial(name: str, index: int, reward: float | None, *traces: TokenTrace) -> Rollout:
    """A trial of a task with these sequences; one without a reward broke."""
    trajectory = Trajectory(name, "shell", "theta_0", (), traces, Stop.SUBMITTED, 0.0)
    outcome = Outcome.INFRASTRUCTURE_FAILED if reward is None else Outcome.SCORED
    return Rollout(name, index, outcome, reward, trajectory, None)
