"""A record is read back from what a ledger kept."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from clawloop.report import read
from clawloop.report.summary import Iteration, Record
from clawloop.types import Rollout, RolloutGroup, Screening


class Kept:
    """A ledger in memory that holds what a run recorded."""

    def __init__(self, run: Record) -> None:
        self.run = run
        self.by_k: dict[int, Iteration] = {iteration.k: iteration for iteration in run.iterations}

    def phase(self, name: str, k: int) -> Any:
        if k not in self.by_k:
            return None
        kept = self.by_k[k]
        pools = (list(kept.practice), list(kept.held_out))
        return {"synthesize": kept.candidates, "screen": kept.screening, "split": pools}[name]

    def rollouts(self, at: str) -> Sequence[Rollout]:
        k, _, name = at[1:].partition("/")
        kept = {"admission": self.by_k[int(k)].admission, "held_out": self.by_k[int(k)].trials}[name]
        return [rollout for group in reversed(kept) for rollout in reversed(group.rollouts)]

    def metrics(self, axis: str) -> Mapping[int, Mapping[str, float]]:
        return {"probe": self.run.probe}[axis]

    def seconds(self, k: int) -> Mapping[str, float]:
        return self.by_k[k].seconds


def test_reads_back_what_was_recorded(record: Record) -> None:
    about = {"config_hash": record.config_hash, "version": record.version, "seed": record.seed, "wall_s": record.wall_s}
    assert read.record(Kept(record), **about) == record  # type: ignore[arg-type]


def test_an_iteration_without_a_split_has_not_ended(record: Record) -> None:
    class Killed(Kept):
        def phase(self, name: str, k: int) -> Any:
            return None if (name, k) == ("split", 2) else super().phase(name, k)

    found = read.record(Killed(record), config_hash="", version="", seed=0, wall_s=0.0)
    assert found.iterations == record.iterations[:1]


def test_trials_go_to_their_task_in_order(record: Record) -> None:
    first = record.iterations[0]
    tasks = first.screening.tasks
    shuffled = [rollout for group in reversed(first.admission) for rollout in reversed(group.rollouts)]
    stranger = replace(shuffled[0], task_id="unknown")
    assert read.groups(tasks, [stranger, *shuffled]) == first.admission
    assert read.groups(tasks[:1], []) == (RolloutGroup(tasks[0], ()),)
    assert read.groups(Screening((), {}).tasks, shuffled) == ()
