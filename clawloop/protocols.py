"""Every seam of the program, on one page. A part is one class that fits one of these, and one yaml that names it."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

from clawloop.types import (
    Assignment,
    Budget,
    Candidate,
    Card,
    CommandResult,
    Completion,
    DiagnosisReport,
    Draft,
    FailureSummary,
    Finding,
    Limits,
    Record,
    Request,
    Rollout,
    RolloutGroup,
    Screening,
    Snapshot,
    StepSignal,
    Task,
    TaskPool,
    Trajectory,
    Verdict,
    Workspace,
)


class InfrastructureError(Exception):
    """A sandbox or an engine broke. The trial says nothing about the agent: its reward is None."""


class RequestError(ValueError):
    """A request asks for what this policy cannot do. Nothing was sampled, and the policy is not broken."""


class Agent(Protocol):
    """What a harness talks to. `complete` may be called from many threads at once; `version` names theta."""

    @property
    def version(self) -> str: ...
    def complete(self, request: Request) -> Completion: ...


@runtime_checkable
class Counter(Protocol):
    """A policy that can say how many tokens a request's prompt has."""

    def count(self, request: Request) -> int: ...


class Policy(Agent, Protocol):
    """pi_theta, with weights that can be kept and put back."""

    def renamed(self, version: str) -> Self: ...
    def save(self, folder: Path) -> None: ...
    def load(self, folder: Path, version: str) -> Self: ...


class Sandbox(Protocol):
    """One open box with one workspace. Every process of a command is dead when `run` returns."""

    def run(
        self, command: Sequence[str], *, timeout_s: float | None = None, environment: Mapping[str, str] | None = None
    ) -> CommandResult: ...
    def read(self, path: str, limit: int) -> bytes: ...
    def write(self, path: str, data: bytes) -> None: ...
    def snapshot(self) -> Snapshot: ...


class Sandboxes(Protocol):
    """Opens boxes. Leaving the context destroys the box and everything in it."""

    def open(
        self, workspace: Workspace, limits: Limits | None = None, *, hostname: str = "box", on_disk: bool = False
    ) -> AbstractContextManager[Sandbox]: ...


class Session(Protocol):
    """One episode at a gateway; its key is what a program is given as its API key."""

    @property
    def key(self) -> str: ...


class Sessions(Protocol):
    """A gateway: opens a session in front of a policy, and hands back all that was asked there when it is closed."""

    def open(self, policy: Agent, budget: Budget, seed: int) -> Session: ...
    def close(self, session: Session) -> Record: ...


class Harness(Protocol):
    """Plays one episode in an open box that already holds the workspace."""

    @property
    def name(self) -> str: ...
    def run(self, assignment: Assignment, policy: Agent, sandbox: Sandbox, seed: int) -> Trajectory: ...


@runtime_checkable
class Demonstrable(Protocol):
    """A harness in whose form an action can be written: the reply that runs a command, or, for None, hands in."""

    def reply(self, command: str | None) -> str: ...


class Grader(Protocol):
    """Runs a task's verifier on a snapshot, in a box of its own."""

    def __call__(self, task: Task, snapshot: Snapshot) -> Verdict: ...


class Journal(Protocol):
    """Remembers finished trials, so that a killed run repeats none."""

    def find(self, at: str, task_id: str, index: int) -> Rollout | None: ...
    def add(self, at: str, rollout: Rollout) -> None: ...


class Shelf(Protocol):
    """Remembers finished candidates, so that a killed run has none written twice."""

    def candidate(self, id: str) -> Candidate | None: ...
    def add_candidate(self, k: int, position: int, candidate: Candidate) -> None: ...


class Author(Protocol):
    """Writes the generator of a task for a card, given F_{k-1}."""

    def write(self, card: Card, policy: Policy, report: DiagnosisReport) -> Draft: ...


class Routine(Protocol):
    """Says which tasks to make: `count` cards, given F_{k-1}. How hard they are is not its business."""

    @property
    def capabilities(self) -> tuple[str, ...]: ...
    def cards(self, count: int, report: DiagnosisReport, seed: int) -> tuple[Card, ...]: ...


class Growth(Protocol):
    """Makes a card harder in one way (multi-hop, dirtiness), where its level asks for it."""

    def grow(self, card: Card) -> Card: ...


class Difficulty(Protocol):
    """Pure: of each capability, the share of its next tasks at each level."""

    def mix(self, capabilities: Sequence[str], report: DiagnosisReport) -> Mapping[str, Mapping[int, float]]: ...


class Check(Protocol):
    """One agent-free check of a candidate that has a task."""

    def __call__(self, candidate: Candidate) -> Finding: ...


@runtime_checkable
class Comparison(Protocol):
    """A check that compares a candidate with those before it, this iteration's and earlier ones', that are sound."""

    def compare(self, candidate: Candidate, before: Sequence[Candidate]) -> Finding: ...


class Stage(Protocol):
    """One training stage of iteration k: theta -> theta'."""

    @property
    def name(self) -> str: ...
    def __call__(self, policy: Policy, practice: TaskPool, k: int) -> Policy: ...


@runtime_checkable
class Stateful(Protocol):
    """A stage whose next call depends on those before it; what it knows then is kept with its weights."""

    def state(self) -> bytes: ...
    def restore(self, state: bytes) -> None: ...


class Sketch(Protocol):
    """Compares the gradient that a model holds with what other harnesses left, by their names, and keeps it."""

    def __call__(self, harness: str, model: Any) -> Mapping[str, float]: ...


class Scheduler(Protocol):
    """Says which harnesses step `step` of iteration k has, and learns from the step; none leaves each task in its own.

    `observe` returns numbers to be logged. A scheduler that has a `sketch` is told the cosines that it measures.
    """

    @property
    def sketch(self) -> Sketch | None: ...
    def choose(self, k: int, step: int) -> tuple[str, ...]: ...
    def observe(self, signal: StepSignal) -> Mapping[str, float]: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...


class Summariser(Protocol):
    """Explains one failed trial (paper, 4.3)."""

    def __call__(self, policy: Policy, task: Task, rollout: Rollout) -> FailureSummary: ...


class Tracker(Protocol):
    """A sink of numbers and events. Keys are `axis/name`; each axis has its own step, `axis/step`."""

    def log(self, axis: str, step: int, values: Mapping[str, float]) -> None: ...
    def event(self, name: str, detail: Mapping[str, object]) -> None: ...
    def progress(self, phase: str, done: int, total: int) -> None: ...
    def close(self, exit_code: int) -> None: ...


class Phases(Protocol):
    """What the loop is handed; logging, resuming and timing are wrapped around each phase in `build`."""

    @property
    def train(self) -> Sequence[Stage]: ...
    def synthesize(self, policy: Policy, report: DiagnosisReport, k: int) -> tuple[Candidate, ...]: ...
    def screen(self, candidates: tuple[Candidate, ...], k: int) -> Screening: ...
    def roll_out(self, policy: Policy, tasks: tuple[Task, ...], n: int, at: str) -> tuple[RolloutGroup, ...]: ...
    def admit(self, groups: tuple[RolloutGroup, ...], k: int) -> TaskPool: ...
    def split(self, pool: TaskPool, k: int) -> tuple[TaskPool, TaskPool]: ...
    def diagnose(
        self,
        policy: Policy,
        trials: tuple[RolloutGroup, ...],
        groups: tuple[RolloutGroup, ...],
        report: DiagnosisReport,
        k: int,
    ) -> DiagnosisReport: ...
    def evaluate(self, policy: Policy, k: int) -> None: ...
