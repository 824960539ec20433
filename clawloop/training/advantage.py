"""The group `advantage`: how much better a trial was than its group. Rewards in, advantages out, in the same order.

A trial without a reward is in no group. A group of one, or of one reward, has no advantage; `source` drops it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev


@dataclass(frozen=True, slots=True)
class GroupRelative:
    """Eq. 2: A_j = (r_j - mean r) / (std r + epsilon), with the population's standard deviation.

    The paper does not say which deviation.

    >>> [round(a, 2) for a in GroupRelative(0.0)([1.0, 0.0, 0.0, 0.0])]
    [1.73, -0.58, -0.58, -0.58]
    >>> GroupRelative(1e-4)([1.0, 1.0])
    [0.0, 0.0]
    """

    epsilon: float

    def __call__(self, rewards: Sequence[float]) -> list[float]:
        """The advantages of one group."""
        mean, spread = fmean(rewards), pstdev(rewards)
        return [(reward - mean) / (spread + self.epsilon) if spread else 0.0 for reward in rewards]


class LeaveOneOut:
    """A_j = r_j - the mean of the others' rewards, not divided by a deviation (harnessbandit.md, 5.1).

    >>> LeaveOneOut()([1.0, 0.0, 0.0])
    [1.0, -0.5, -0.5]
    >>> LeaveOneOut()([1.0])
    [0.0]
    """

    def __call__(self, rewards: Sequence[float]) -> list[float]:
        """The advantages of one group."""
        total, others = sum(rewards), len(rewards) - 1
        return [reward - (total - reward) / others if others else 0.0 for reward in rewards]
