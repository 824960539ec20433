"""Trials of a task and their outcomes."""

from dataclasses import dataclass
from enum import StrEnum

from clawloop.types.task import Task
from clawloop.types.trajectory import Trajectory


class Outcome(StrEnum):
    """The four ways a trial can end; only the first two say something about the agent."""

    SCORED = "scored"
    AGENT_FAILED = "agent_failed"
    GRADER_FAILED = "grader_failed"
    INFRASTRUCTURE_FAILED = "infrastructure_failed"


@dataclass(frozen=True, slots=True)
class FieldResult:
    """One graded value; `reason` (missing, wrong_value, wrong_type, not_regular, ...) is empty where right."""

    name: str
    passed: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a verifier said of a final workspace."""

    passed: bool
    fields: tuple[FieldResult, ...]


@dataclass(frozen=True, slots=True)
class Rollout:
    """Trial j of a task.

    `reward` is 1.0 or 0.0 where the agent was judged (out of turns or time is 0.0), and None, never 0.0, where the
    sandbox, the engine or the verifier broke.
    """

    task_id: str
    index: int
    outcome: Outcome
    reward: float | None
    trajectory: Trajectory | None
    verdict: Verdict | None
    error: str = ""


@dataclass(frozen=True, slots=True)
class RolloutGroup:
    """The trials of one task, the group of Eq. 2."""

    task: Task
    rollouts: tuple[Rollout, ...]

    @property
    def rewards(self) -> tuple[float, ...]:
        """The rewards that exist, in order of trial."""
        return tuple(r.reward for r in self.rollouts if r.reward is not None)

    @property
    def passes(self) -> int:
        """How many trials were rewarded: sum_j r_j of Algorithm 1, line 13."""
        return sum(reward == 1.0 for reward in self.rewards)


@dataclass(frozen=True, slots=True)
class TaskPool:
    """Admitted tasks with the rollouts that admitted them."""

    groups: tuple[RolloutGroup, ...]

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks, in the pool's order."""
        return tuple(group.task for group in self.groups)
