"""Rates with intervals that know that the trials of one task are not independent.

The unit is the task: its trials are averaged first, and the spread between tasks carries the interval (clustered
standard errors with equal weights; Miller 2024, "Adding Error Bars to Evals", section 2.2). Trials without a reward
are left out, and `coverage` says how many were kept.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, stdev

from scipy.special import stdtrit

from clawloop.types import RolloutGroup

_SAME = 1e-12


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its interval.

    `coverage` is the share of the trials that had a reward, `trials` is their number, `tasks` that of their tasks.
    """

    mean: float
    low: float
    high: float
    coverage: float
    trials: int
    tasks: int


def interval(values: Sequence[float], floor: float, ceiling: float, level: float = 0.95) -> tuple[float, float, float]:
    """Mean of independent values within [floor, ceiling], and its two-sided t-interval, clipped to that range.

    Values that are all alike (or a single one) have no spread to go by. Then the share u of cases that could differ is
    bounded by Wilson's upper end for none seen in n, and the mean by letting these lie at either end of the range. For
    values that are all 0 or all 1 this is Wilson's interval.

    Args:
        values: at least one.
        floor: the smallest value there can be.
        ceiling: the largest.
        level: the confidence.

    Returns:
        (mean, low, high).

    Raises:
        ValueError: there are no values.

    >>> interval([0.0, 1.0], 0.0, 1.0)
    (0.5, 0.0, 1.0)
    >>> mean, low, high = interval([1.0] * 10, 0, 1)
    >>> mean, round(low, 3), high
    (1.0, 0.722, 1.0)
    """
    n = len(values)
    if n == 0:
        raise ValueError("an interval needs at least one value; look at why no trial has a reward")
    mean = fmean(values)
    if max(values) - min(values) < _SAME:
        unseen = wilson(0, n, level)[1]
        return mean, (1 - unseen) * mean + unseen * floor, (1 - unseen) * mean + unseen * ceiling
    half = float(stdtrit(n - 1, (1 + level) / 2)) * stdev(values) / math.sqrt(n)
    return mean, max(floor, mean - half), min(ceiling, mean + half)


def wilson(passes: int, trials: int, level: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval (1927) of a plain binomial: independent trials, no tasks. (0, 1) where nothing was tried.

    >>> [round(end, 4) for end in wilson(5, 10)]
    [0.2366, 0.7634]
    """
    if trials == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + level) / 2)
    rate, weight = passes / trials, z * z / trials
    centre = (rate + weight / 2) / (1 + weight)
    half = z / (1 + weight) * math.sqrt(rate * (1 - rate) / trials + weight / (4 * trials))
    return (0.0 if passes == 0 else centre - half), (1.0 if passes == trials else centre + half)


def coverage(groups: Sequence[RolloutGroup]) -> float:
    """The share of the trials that have a reward; 1 where there are no trials."""
    trials = sum(len(group.rollouts) for group in groups)
    return sum(len(group.rewards) for group in groups) / trials if trials else 1.0


def pass_rate(groups: Sequence[RolloutGroup], level: float = 0.95) -> Estimate:
    """Mean over tasks of each task's share of passes.

    Raises:
        ValueError: no trial has a reward.
    """
    means = [fmean(group.rewards) for group in groups if group.rewards]
    trials = sum(len(group.rewards) for group in groups)
    return Estimate(*interval(means, 0.0, 1.0, level), coverage(groups), trials, len(means))


def difference(after: Sequence[RolloutGroup], before: Sequence[RolloutGroup], level: float = 0.95) -> Estimate:
    """Mean over tasks of (pass rate after - pass rate before), paired by task id.

    Tasks without a reward on either side are left out; `coverage` and `trials` count both sides.

    Raises:
        ValueError: the two sides are not the same tasks, or no task has rewards on both.
    """
    first = {group.task.id: group for group in before}
    if len(first) != len(before) or sorted(first) != sorted(group.task.id for group in after):
        raise ValueError("a paired difference needs the same tasks on both sides; try both policies on one probe")
    pairs = [(group, first[group.task.id]) for group in after]
    pairs = [(a, b) for a, b in pairs if a.rewards and b.rewards]
    trials = sum(len(a.rewards) + len(b.rewards) for a, b in pairs)
    total = sum(len(group.rollouts) for group in (*after, *before))
    gains = [fmean(a.rewards) - fmean(b.rewards) for a, b in pairs]
    return Estimate(*interval(gains, -1.0, 1.0, level), trials / total if total else 1.0, trials, len(pairs))


def pass_at(k: int, passes: int, trials: int) -> float:
    """pass@k: the chance that at least one of k trials passes, without bias (Chen et al. 2021, Eq. 1).

    >>> pass_at(2, passes=1, trials=4)
    0.5
    """
    _enough(k, trials)
    return 1 - math.comb(trials - passes, k) / math.comb(trials, k)


def pass_all(k: int, passes: int, trials: int) -> float:
    """pass^k: the chance that all of k trials pass, without bias (tau-bench, Yao et al. 2024).

    >>> pass_all(2, passes=3, trials=4)
    0.5
    """
    _enough(k, trials)
    return math.comb(passes, k) / math.comb(trials, k)


def _enough(k: int, trials: int) -> None:
    if not 1 <= k <= trials:
        raise ValueError(f"k is {k} but there are {trials} trials; choose k from 1 to the number of trials")
