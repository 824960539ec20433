"""Agent-based validation: neither too easy nor too hard (paper, 4.2; Algorithm 1, line 13)."""

from collections.abc import Sequence

from clawloop.types import RolloutGroup, TaskPool


class Band:
    """Admits a task where N_l <= sum_j r_j <= N_h, after all N trials.

    Trials without a reward (a broken sandbox, engine or verifier) say nothing of the agent. A task that has some is
    admitted only where the band would hold it whatever they had been: with p passes and m such trials, N_l <= p and
    p + m <= N_h.

    Args:
        low: N_l, at least 1: a task that is never solved gives no signal.
        high: N_h, below N: neither does one that always is.
        rollouts: N.
    """

    def __init__(self, low: int, high: int, rollouts: int) -> None:
        if not 0 < low <= high:
            raise ValueError(f"the admission band needs 0 < low <= high, not [{low}, {high}].")
        if high >= rollouts:
            raise ValueError(f"the admission band's high {high} must be below the {rollouts} rollouts of a task.")
        self._low, self._high, self._rollouts = low, high, rollouts

    def __call__(self, groups: tuple[RolloutGroup, ...], k: int) -> TaskPool:
        """The admitted pool P_k, in the groups' order."""
        return TaskPool(tuple(group for group in groups if self._admits(group)))

    def wanted(self, rewards: Sequence[float | None]) -> int:
        """How many more trials of a task are wanted, after those with these rewards: all N."""
        return self._rollouts - len(rewards)

    def _admits(self, group: RolloutGroup) -> bool:
        unjudged = len(group.rollouts) - len(group.rewards)
        return self._low <= group.passes and group.passes + unjudged <= self._high


class Sequential(Band):
    """The same pool with fewer trials: those of a task end when it can no longer be admitted.

    That is so when more than N_h passed, or when too few are left to reach N_l. A task that is admitted has all its N
    trials, so its group is whole.
    """

    def wanted(self, rewards: Sequence[float | None]) -> int:
        """How many more trials every outcome needs: so many may run at once, and none of them is in vain.

        >>> band = Sequential(1, 5, 8)
        >>> band.wanted([1.0]), band.wanted([1.0] * 5 + [0.0]), band.wanted([1.0] * 6)
        (5, 1, 0)
        """
        passes, unjudged = sum(reward == 1.0 for reward in rewards), sum(reward is None for reward in rewards)
        too_many = self._high + 1 - max(passes, self._low) - unjudged
        too_few = self._rollouts - self._low + 1 - (len(rewards) - passes)
        return max(min(too_many, too_few, self._rollouts - len(rewards)), 0)
