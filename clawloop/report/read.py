"""From a ledger to a `Record`: the only place of the report that knows how a run is kept."""

from collections.abc import Sequence

from clawloop.report.summary import Iteration, Record
from clawloop.store.ledger import Ledger, decode
from clawloop.types import Rollout, RolloutGroup, Screening, Task


def record(ledger: Ledger, *, config_hash: str, version: str, seed: int, wall_s: float) -> Record:
    """All that ended: iterations up to the last whose pool was split, and every probe."""
    iterations: list[Iteration] = []
    while (found := iteration(ledger, len(iterations) + 1)) is not None:
        iterations.append(found)
    return Record(
        tuple(iterations), ledger.metrics("probe"), config_hash, version, seed, wall_s, ledger.metrics("grpo")
    )


def iteration(ledger: Ledger, k: int) -> Iteration | None:
    """What iteration k recorded, or None where its pool has not been split."""
    screened, split = ledger.ended("screen", k), ledger.ended("split", k)
    if screened is None or split is None:
        return None
    candidates, sound = ledger.candidates(k), set(decode(screened, list[str]))
    tasks = tuple(c.task for c in candidates if c.task is not None and c.id in sound)
    practice, held_out = decode(split, tuple[list[str], list[str]])
    tried = [task for task in tasks if task.id in set(held_out)]
    return Iteration(
        k=k,
        candidates=candidates,
        screening=Screening(tasks, ledger.findings(k)),
        admission=groups(tasks, ledger.rollouts(f"k{k}/admission")),
        practice=tuple(practice),
        held_out=tuple(held_out),
        trials=groups(tried, ledger.rollouts(f"k{k}/held_out")),
        seconds=ledger.seconds(k),
    )


def groups(tasks: Sequence[Task], rollouts: Sequence[Rollout]) -> tuple[RolloutGroup, ...]:
    """The trials of each task, in the order of the tasks and of the trials."""
    kept: dict[str, list[Rollout]] = {task.id: [] for task in tasks}
    for rollout in sorted(rollouts, key=lambda r: r.index):
        if rollout.task_id in kept:
            kept[rollout.task_id].append(rollout)
    return tuple(RolloutGroup(task, tuple(kept[task.id])) for task in tasks)
