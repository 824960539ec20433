"""Practice and held-out tasks (Algorithm 1, line 14)."""

import random
from collections import defaultdict

from clawloop.types import RolloutGroup, TaskPool


class Split:
    """Splits an admitted pool into T_k and E_k by lineage: siblings of one seed are on one side.

    Lineages are drawn per capability, each giving its share as near as whole lineages allow, so that diagnosis sees
    what is practised. With two lineages or more neither side is empty; a single one is practised.

    Args:
        held_out: the share of lineages in E_k. The paper does not state its size ("a small held-out split", A.1); a
            quarter keeps a few tasks per capability at small scale and leaves most of the signal to training.
        seed: the run's seed.
    """

    def __init__(self, held_out: float = 0.25, seed: int = 0) -> None:
        if not 0 < held_out < 1:
            raise ValueError(f"split.held_out must lie between 0 and 1, not {held_out}.")
        self._share, self._seed = held_out, seed

    def __call__(self, pool: TaskPool, k: int) -> tuple[TaskPool, TaskPool]:
        """(T_k, E_k): disjoint, exhaustive, each in the pool's order."""
        chosen = self._choose(pool, k)

        def side(held_out: bool) -> TaskPool:
            return TaskPool(tuple(group for group in pool.groups if (_lineage(group) in chosen) is held_out))

        return side(False), side(True)

    def _choose(self, pool: TaskPool, k: int) -> set[str]:
        first = {_lineage(group): group.task.card.capability for group in reversed(pool.groups)}
        strata: dict[str, list[str]] = defaultdict(list)
        for lineage in sorted(first):
            strata[first[lineage]].append(lineage)
        if len(first) < 2:
            return set()
        target = min(max(round(self._share * len(first)), 1), len(first) - 1)
        quota = {name: self._share * len(lineages) for name, lineages in strata.items()}
        takes = {name: int(share) for name, share in quota.items()}
        noise = random.Random(f"{self._seed}/{k}/split")
        names = sorted(strata)
        noise.shuffle(names)
        names.sort(key=lambda name: takes[name] - quota[name])  # largest remainder first, ties by lot
        for name in names[: target - sum(takes.values())]:
            takes[name] += 1
        return {lineage for name in sorted(strata) for lineage in noise.sample(strata[name], takes[name])}


def _lineage(group: RolloutGroup) -> str:
    return group.task.card.lineage
