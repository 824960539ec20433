"""Eq. 2: how much better a trial was than its group."""

from collections.abc import Sequence
from statistics import fmean, pstdev


def group_relative(rewards: Sequence[float], epsilon: float) -> list[float]:
    """A_j = (r_j - mean r) / (std r + epsilon), with the population's standard deviation.

    The paper does not say which deviation. A unanimous group has no advantage.

    >>> [round(a, 2) for a in group_relative([1.0, 0.0, 0.0, 0.0], 0.0)]
    [1.73, -0.58, -0.58, -0.58]
    >>> group_relative([1.0, 1.0], 1e-4)
    [0.0, 0.0]
    """
    mean, spread = fmean(rewards), pstdev(rewards)
    return [(reward - mean) / (spread + epsilon) if spread else 0.0 for reward in rewards]
