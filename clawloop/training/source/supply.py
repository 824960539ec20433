"""Groups for the next optimizer step: shuffled pools, dynamic sampling, and a stash (HarnessBandit, 4.1 and 5.1)."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TypeAlias

from clawloop.types import RolloutGroup, Task

Play: TypeAlias = Callable[[str, tuple[Task, ...]], tuple[RolloutGroup, ...]]
"""From a harness and tasks to their groups."""
_Row: TypeAlias = tuple[str, Task]


@dataclass(frozen=True, slots=True)
class Made:
    """A group with its harness, and the step whose policy played it."""

    harness: str
    group: RolloutGroup
    step: int


@dataclass(frozen=True, slots=True)
class Supplied:
    """What a step got, and counts of groups: played for it, of these unanimous, left in the stash, and too old."""

    groups: tuple[Made, ...]
    played: int
    unanimous: int
    stashed: int
    stale: int


class Supply:
    """Gives each step groups that are not unanimous, of the harnesses that were chosen for it.

    Each choice of harnesses has its own endless shuffle of the same tasks, and its own stash of groups left over. A
    choice of none is every task in its own harness.

    Args:
        tasks: the practice tasks.
        harness_of: the harness that a task has where none is chosen, by its id.
        batch: groups that a step wants, and tasks that are played at a time.
        rounds: how often a step may play.
        staleness: how many steps old a group from the stash may be.
        seed: of the shuffles.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        harness_of: Callable[[str], str],
        batch: int,
        rounds: int,
        staleness: int,
        seed: str,
    ) -> None:
        self._tasks, self._harness_of, self._seed = tuple(tasks), harness_of, seed
        self._batch, self._rounds, self._staleness = batch, rounds, staleness
        self._shuffles: dict[tuple[str, ...], Iterator[_Row]] = {}
        self._stash: dict[tuple[str, ...], list[Made]] = {}

    def take(self, chosen: tuple[str, ...], step: int, play: Play) -> Supplied:
        """The groups of one step, those from the stash first; fewer where `rounds` or the tasks end."""
        kept = self._stash.get(chosen, [])
        ready = [made for made in kept if step - made.step <= self._staleness]
        stale, played, unanimous = len(kept) - len(ready), 0, 0
        tried: set[tuple[str, str]] = set()
        for _ in range(self._rounds):
            rows = self._next(chosen, tried) if len(ready) < self._batch else []
            for harness in dict.fromkeys(harness for harness, _ in rows):
                for group in play(harness, tuple(task for name, task in rows if name == harness)):
                    played += 1
                    if len(set(group.rewards)) > 1:
                        ready.append(Made(harness, group, step))
                    else:
                        unanimous += 1
        self._stash[chosen] = ready[self._batch :]
        return Supplied(tuple(ready[: self._batch]), played, unanimous, len(ready[self._batch :]), stale)

    def _next(self, chosen: tuple[str, ...], tried: set[tuple[str, str]]) -> list[_Row]:
        """The next rows of a shuffle, none of which this step has tried."""
        total = len(self._tasks) * max(1, len(chosen))
        shuffle = self._shuffles.setdefault(chosen, self._endless(chosen))
        rows: list[_Row] = []
        while len(rows) < self._batch and len(tried) < total:
            harness, task = next(shuffle)
            if (harness, task.id) not in tried:
                tried.add((harness, task.id))
                rows.append((harness, task))
        return rows

    def _endless(self, chosen: tuple[str, ...]) -> Iterator[_Row]:
        rows = [(name, task) for task in self._tasks for name in chosen or (self._harness_of(task.id),)]
        for epoch in count():
            random.Random(f"{self._seed}/{','.join(chosen)}/{epoch}").shuffle(rows)
            yield from rows
