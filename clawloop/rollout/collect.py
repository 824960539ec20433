"""N trials of each task over a bounded pool of workers."""

import hashlib
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.thread import ThreadPoolExecutor

from clawloop.protocols import Journal, Policy
from clawloop.types import Rollout, RolloutGroup, Task


class Collect:
    """Rolls out tasks (Algorithm 1, lines 7 to 12 and 22), writing each trial down as it ends.

    Trials that the journal already holds are not played again. A trial's seed derives from (run seed, phase, task,
    trial) alone, and the order of the result from that of the tasks, so neither depends on timing.

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

    def __call__(self, policy: Policy, tasks: tuple[Task, ...], n: int, at: str) -> tuple[RolloutGroup, ...]:
        """`n` trials of every task; `at` names the phase, such as k1/admission."""
        found = {(t.id, j): self._journal.find(at, t.id, j) for t in tasks for j in range(n)}
        done = {key: rollout for key, rollout in found.items() if rollout is not None}
        todo = [(t, j) for t in tasks for j in range(n) if (t.id, j) not in done]
        total = len(found)
        self._progress(at, len(done), total)
        with ThreadPoolExecutor(self._workers, thread_name_prefix="episode") as pool:
            running: set[Future[Rollout]] = set()
            try:
                while todo or running:
                    while todo and len(running) < self._workers:
                        task, index = todo.pop(0)
                        running.add(pool.submit(self._episode, policy, task, index, self._noise(at, task, index)))
                    ended, running = wait(running, return_when=FIRST_COMPLETED)
                    for future in ended:
                        rollout = future.result()
                        self._journal.add(at, rollout)
                        done[rollout.task_id, rollout.index] = rollout
                        self._progress(at, len(done), total)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return tuple(RolloutGroup(t, tuple(done[t.id, j] for j in range(n))) for t in tasks)

    def _noise(self, at: str, task: Task, index: int) -> int:
        digest = hashlib.sha256(f"{self._seed}/{at}/{task.id}/{index}".encode()).digest()
        return int.from_bytes(digest[:6], "big")
