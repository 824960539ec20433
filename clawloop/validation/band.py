"""Agent-based validation: neither too easy nor too hard (paper, 4.2; Algorithm 1, line 13)."""

from clawloop.types import RolloutGroup, TaskPool


class Band:
    """Admits a task where N_l <= sum_j r_j <= N_h.

    Trials without a reward (a broken sandbox, engine or verifier) say nothing of the agent. A task that has some is
    admitted only where the band would hold it whatever they had been: with p passes and m such trials, N_l <= p and
    p + m <= N_h.

    Args:
        low: N_l, at least 1: a task that is never solved gives no signal.
        high: N_h, below N: neither does one that always is.
        rollouts: N, where it is known when the band is made, to find a wrong one early.
    """

    def __init__(self, low: int = 1, high: int = 5, rollouts: int | None = None) -> None:
        if not 0 < low <= high:
            raise ValueError(f"the admission band needs 0 < low <= high, not [{low}, {high}].")
        self._low, self._high = low, high
        if rollouts is not None:
            self._below(rollouts)

    def __call__(self, groups: tuple[RolloutGroup, ...], k: int) -> TaskPool:
        """The admitted pool P_k, in the groups' order."""
        return TaskPool(tuple(group for group in groups if self._admits(group)))

    def _admits(self, group: RolloutGroup) -> bool:
        self._below(len(group.rollouts))
        unjudged = len(group.rollouts) - len(group.rewards)
        return self._low <= group.passes and group.passes + unjudged <= self._high

    def _below(self, rollouts: int) -> None:
        if self._high >= rollouts:
            raise ValueError(f"the admission band's high {self._high} must be below the {rollouts} rollouts of a task.")
