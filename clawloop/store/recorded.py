"""Resuming: a phase that the ledger holds is read back, and any other is run, timed and written down."""

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from clawloop.protocols import InfrastructureError, Policy, Stage, Stateful
from clawloop.protocols import Phases as Wanted
from clawloop.store.layout import Layout
from clawloop.store.ledger import Ledger, decode, encode
from clawloop.types import Candidate, DiagnosisReport, RolloutGroup, Screening, Task, TaskPool

T = TypeVar("T")
Ended = Callable[[str, int, float, bool], None]
"""Told (phase, k, seconds, whether it was only read back)."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """Wraps phases so that none is run twice.

    `keep` turns a result into what the phase's row holds, and `read` turns that back, given the phase's arguments.
    """

    ledger: Ledger
    on_end: Ended

    def call(
        self, name: str, k: int, run: Callable[[], T], keep: Callable[[T], bytes], read: Callable[[bytes], T]
    ) -> T:
        """The phase's result, by running it or from the ledger."""
        kept = self.ledger.ended(name, k)
        if kept is not None:
            self.on_end(name, k, 0.0, True)
            return read(kept)
        started = time.monotonic()
        result = run()
        seconds = time.monotonic() - started
        self.ledger.end_phase(name, k, keep(result), seconds)
        self.on_end(name, k, seconds, False)
        return result


class Phases:
    """The phases of the loop (`protocols.Phases`), each one recorded.

    Candidates, findings and trials have rows of their own; a phase's row holds what is not there already.
    """

    def __init__(self, inner: Wanted, stages: tuple[Stage, ...], ledger: Ledger, layout: Layout, on_end: Ended) -> None:
        self._inner, self._ledger = inner, ledger
        self._recorded = Recorded(ledger, on_end)
        following = [*stages[1:], *stages[:1]]
        self.train = [
            RecordedStage(stage, ledger, layout, on_end, last=stage is stages[-1], following=after.name)
            for stage, after in zip(stages, following, strict=True)
        ]

    def synthesize(self, policy: Policy, report: DiagnosisReport, k: int) -> tuple[Candidate, ...]:
        """Line 5."""

        def keep(candidates: tuple[Candidate, ...]) -> bytes:
            self._ledger.add_candidates(k, candidates)
            return b""

        run = lambda: self._inner.synthesize(policy, report, k)  # noqa: E731
        return self._recorded.call("synthesize", k, run, keep, lambda _: self._ledger.candidates(k))

    def screen(self, candidates: tuple[Candidate, ...], k: int) -> Screening:
        """Line 6."""

        def keep(screening: Screening) -> bytes:
            self._ledger.add_findings(screening.findings)
            return encode([task.id for task in screening.tasks])

        def read(kept: bytes) -> Screening:
            ids = set(decode(kept, list[str]))
            return Screening(tuple(c.task for c in candidates if c.task and c.id in ids), self._ledger.findings(k))

        return self._recorded.call("screen", k, lambda: self._inner.screen(candidates, k), keep, read)

    def roll_out(self, policy: Policy, tasks: tuple[Task, ...], n: int, at: str) -> tuple[RolloutGroup, ...]:
        """Lines 7 and 22. The collector asks the journal for each trial, so that reading back is running it again."""
        phase, k = _place(at)

        def run() -> tuple[RolloutGroup, ...]:
            return self._inner.roll_out(policy, tasks, n, at)

        return self._recorded.call(phase, k, run, lambda _: b"", lambda _: run())

    def admit(self, groups: tuple[RolloutGroup, ...], k: int) -> TaskPool:
        """Line 13."""

        def keep(pool: TaskPool) -> bytes:
            return encode([task.id for task in pool.tasks])

        run = lambda: self._inner.admit(groups, k)  # noqa: E731
        return self._recorded.call("admit", k, run, keep, lambda kept: _pool(groups, decode(kept, list[str])))

    def split(self, pool: TaskPool, k: int) -> tuple[TaskPool, TaskPool]:
        """Line 14."""

        def keep(pools: tuple[TaskPool, TaskPool]) -> bytes:
            return encode([[task.id for task in part.tasks] for part in pools])

        def read(kept: bytes) -> tuple[TaskPool, TaskPool]:
            practice, held_out = decode(kept, tuple[list[str], list[str]])
            return _pool(pool.groups, practice), _pool(pool.groups, held_out)

        return self._recorded.call("split", k, lambda: self._inner.split(pool, k), keep, read)

    def diagnose(
        self,
        policy: Policy,
        trials: tuple[RolloutGroup, ...],
        groups: tuple[RolloutGroup, ...],
        report: DiagnosisReport,
        k: int,
    ) -> DiagnosisReport:
        """Line 23."""
        run = lambda: self._inner.diagnose(policy, trials, groups, report, k)  # noqa: E731
        return self._recorded.call("diagnose", k, run, encode, lambda kept: decode(kept, DiagnosisReport))

    def evaluate(self, policy: Policy, k: int) -> None:
        """The probe, which is not in the listing."""
        self._recorded.call("probe", k, lambda: self._inner.evaluate(policy, k), lambda _: b"", lambda _: None)


class RecordedStage:
    """A training stage whose weights are kept, with what it knows; a stage that has ended is not trained again.

    The last stage of iteration k gives theta_k. What an iteration needed on the way is dropped once theta_k is there.
    `following` is the stage that comes next, for the last one the first of iteration k + 1.
    """

    def __init__(
        self, stage: Stage, ledger: Ledger, layout: Layout, on_end: Ended, *, last: bool, following: str
    ) -> None:
        self._stage, self._layout, self._last, self._following = stage, layout, last, following
        self._ledger, self._on_end = ledger, on_end
        self.name = stage.name

    def __call__(self, policy: Policy, practice: TaskPool, k: int) -> Policy:
        """Theta' of iteration k."""
        version = f"theta_{k}" if self._last else f"theta_{k}-{self.name}"
        folder = self._layout.checkpoint(version)

        def keep(trained: Policy) -> bytes:
            save_whole(trained, folder)
            return self._stage.state() if isinstance(self._stage, Stateful) else b""

        def read(kept: bytes) -> Policy:
            if isinstance(self._stage, Stateful):
                self._stage.restore(kept)
            return self._restore(policy, folder, k)

        recorded = Recorded(self._ledger, self._on_end)
        trained = recorded.call(self.name, k, lambda: self._stage(policy, practice, k), keep, read)
        trained = trained.renamed(version)
        if self._last:
            for old in self._layout.checkpoints.glob(f"theta_{k}-*"):
                shutil.rmtree(old)
        return trained

    def _restore(self, policy: Policy, folder: Path, k: int) -> Policy:
        """The weights, or the policy as it is where the following stage has ended too and brings its own."""
        if folder.is_dir():
            return policy.load(folder, folder.name)
        if self._ledger.ended(self._following, k + self._last) is None:
            raise InfrastructureError(
                f"{folder} is gone, and the run goes on from those weights; put it back, or start a new run."
            )
        return policy


def save_whole(policy: Policy, folder: Path) -> None:
    """Save a policy so that `folder` is there whole or not at all, wherever the process is killed."""
    unfinished = folder.with_suffix(".part")
    shutil.rmtree(unfinished, ignore_errors=True)
    policy.save(unfinished)
    shutil.rmtree(folder, ignore_errors=True)
    unfinished.rename(folder)


def _place(at: str) -> tuple[str, int]:
    """(phase, k) of a name such as k2/held_out.

    >>> _place("k2/held_out")
    ('held_out', 2)
    """
    iteration, phase = at.split("/")
    return phase, int(iteration.removeprefix("k"))


def _pool(groups: tuple[RolloutGroup, ...], ids: list[str]) -> TaskPool:
    by_id = {group.task.id: group for group in groups}
    return TaskPool(tuple(by_id[id] for id in ids))
