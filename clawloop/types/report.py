"""What the failures say: F_k."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class RootCause(StrEnum):
    """Why a trial failed (paper, 4.3); over_budget is ours, for trials that ended by turns, time or context."""

    MISUNDERSTOOD = "misunderstood"
    WRONG_TOOL = "wrong_tool"
    WRONG_EDIT = "wrong_edit"
    STOPPED_EARLY = "stopped_early"
    OVER_BUDGET = "over_budget"


@dataclass(frozen=True, slots=True)
class FailureSummary:
    """One failed trial on E_k: where it went wrong, why, and what would have been needed."""

    task_id: str
    capability: str
    level: int
    failure_point: str
    root_cause: RootCause
    missing_capability: str


@dataclass(frozen=True, slots=True)
class Pattern:
    """A recurring failure: summaries of one capability that share a root cause."""

    capability: str
    root_cause: RootCause
    count: int
    missing_capability: str
    example: str


@dataclass(frozen=True, slots=True)
class Proficiency:
    """Trials and passes of one capability at one level."""

    level: int
    passes: int
    trials: int

    @property
    def rate(self) -> float:
        """The share that passed; 0 where nothing was tried."""
        return self.passes / self.trials if self.trials else 0.0


@dataclass(frozen=True, slots=True)
class Evidence:
    """What iteration k showed of one capability at one level, by task.

    `tasks` has (passes, judged trials) of each task at admission, by theta_{k-1}. `held_out` has those of E_k once
    more, each followed by its (passes, judged trials) after training, by theta_k.
    """

    k: int
    capability: str
    level: int
    tasks: tuple[tuple[int, int], ...]
    held_out: tuple[tuple[int, int, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class DiagnosisReport:
    """F_k: summaries, patterns, and how the agent does per capability at the level it practises.

    `proficiency` holds, per capability, the level of iteration k and the trials there (admission and held-out).
    `evidence` holds what was seen at admission in every iteration up to k.
    """

    k: int
    summaries: tuple[FailureSummary, ...] = ()
    patterns: tuple[Pattern, ...] = ()
    proficiency: Mapping[str, Proficiency] = field(default_factory=dict)
    evidence: tuple[Evidence, ...] = ()

    @classmethod
    def empty(cls) -> "DiagnosisReport":
        """F_0 (Algorithm 1, line 2)."""
        return cls(k=0)
