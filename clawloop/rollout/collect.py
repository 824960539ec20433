"""N trials of each task over a bounded pool of workers."""

import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.thread import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeAlias

from clawloop.protocols import InfrastructureError, Journal, Policy
from clawloop.types import Outcome, Rollout, RolloutGroup, Task

Wanted: TypeAlias = Callable[[Sequence[float | None]], int]
"""From a task's rewards so far to how many more of its trials may run at once, none of them in vain; 0 ends it."""


@dataclass(slots=True)
class _Trials:
    """The trials of one task: the next index, those that run, those that ended."""

    task: Task
    next: int = 0
    running: int = 0
    ended: dict[int, Rollout] = field(default_factory=dict)

    def group(self) -> RolloutGroup:
        return RolloutGroup(self.task, tuple(self.ended[index] for index in sorted(self.ended)))


class Collect:
    """Rolls out tasks (Algorithm 1, lines 7 to 12 and 22), writing each trial down as it ends.

    Trials that the journal already holds are not played again. A trial's seed derives from (run seed, phase, task,
    trial) alone, and the order of the result from that of the tasks, so neither depends on timing.

    Where twice as many trials in a row as there are workers break on the machine, no further trial begins, and the run
    ends when none is left; so it does where all of a phase break, and they are as many as the workers. Such a row is
    written down once a trial ends otherwise: a run that stops for it plays it again.

    Args:
        episode: plays one trial.
        journal: remembers finished trials.
        workers: trials at once.
        seed: the run's seed.
        progress: told (phase, trials done, trials in all).
    """

    def __init__(
        self,
        episode: Callable[[Policy, Task, int, int], Rollout],
        journal: Journal,
        workers: int,
        seed: int,
        progress: Callable[[str, int, int], None] = lambda phase, done, total: None,
    ) -> None:
        self._episode, self._journal, self._workers, self._seed = episode, journal, workers, seed
        self._progress = progress
        self._most, self._broken = 2 * workers, 0

    def __call__(
        self, policy: Policy, tasks: tuple[Task, ...], n: int, at: str, wanted: Wanted | None = None
    ) -> tuple[RolloutGroup, ...]:
        """`n` trials of every task, or fewer where `wanted` ends them; `at` names the phase, such as k1/admission.

        The trials of a task run in the order of their index, no more at once than `wanted` says, so that which of them
        are played does not depend on timing.

        Raises:
            InfrastructureError: too many trials in a row broke on the machine.
        """
        wanted = wanted or (lambda rewards: n - len(rewards))
        found = [_Trials(task) for task in tasks]
        unfinished, total = list(found), n * len(tasks)
        running: dict[Future[Rollout], _Trials] = {}
        held: list[Rollout] = []
        played = 0
        with ThreadPoolExecutor(self._workers, thread_name_prefix="episode") as pool:
            try:
                while True:
                    for trials in list(unfinished):
                        more = self._start(trials, wanted, n, at)
                        while more and len(running) < self._workers and self._broken < self._most:
                            seed = self._noise(at, trials.task, trials.next)
                            running[pool.submit(self._episode, policy, trials.task, trials.next, seed)] = trials
                            trials.next, trials.running, played = trials.next + 1, trials.running + 1, played + 1
                            more = self._start(trials, wanted, n, at)
                        if not more and not trials.running:
                            unfinished.remove(trials)
                        if len(running) >= self._workers:
                            break
                    left = sum(n - len(trials.ended) for trials in unfinished)
                    self._progress(at, total - left, total)
                    if not running:
                        if self._broken >= self._most or played == len(held) >= self._workers:
                            raise InfrastructureError(_given_up(self._broken, held[-1].error))
                        break
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        trials, rollout = running.pop(future), future.result()
                        held.append(rollout)
                        if rollout.outcome is Outcome.INFRASTRUCTURE_FAILED:
                            self._broken += 1
                        else:
                            self._broken = 0
                            self._keep(at, held)
                        trials.running -= 1
                        trials.ended[rollout.index] = rollout
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        self._keep(at, held)
        return tuple(trials.group() for trials in found)

    def _start(self, trials: _Trials, wanted: Wanted, n: int, at: str) -> bool:
        """Whether trial `next` is to be played now; those that the journal holds are taken from there."""
        while trials.next < n and wanted([rollout.reward for rollout in trials.ended.values()]) > trials.running:
            known = self._journal.find(at, trials.task.id, trials.next)
            if known is None:
                return True
            trials.ended[trials.next] = known
            trials.next += 1
        return False

    def _keep(self, at: str, held: list[Rollout]) -> None:
        """Write down what was held back."""
        while held:
            self._journal.add(at, held.pop(0))

    def _noise(self, at: str, task: Task, index: int) -> int:
        digest = hashlib.sha256(f"{self._seed}/{at}/{task.id}/{index}".encode()).digest()
        return int.from_bytes(digest[:6], "big")


def _given_up(broken: int, error: str) -> str:
    return f"{broken} trials in a row broke on this machine and not on the agent; the last: {error.rstrip('.')}."
