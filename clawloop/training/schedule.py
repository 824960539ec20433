"""The group `schedule`: the share of the peak learning rate at a step, after a warm-up (Table 5)."""

import math
from collections.abc import Callable

Schedule = Callable[[int, int, float], float]
"""Given a step from 0, the number of steps, and the share of them in which the rate rises."""


class Cosine:
    """Half a cosine (Table 5).

    It would be zero at the step after the last, so that none of a few steps is spent on a rate of zero.

    >>> [round(Cosine()(step, 6, 0.3), 2) for step in range(6)]
    [0.5, 1.0, 1.0, 0.85, 0.5, 0.15]
    """

    def __call__(self, step: int, steps: int, warmup: float) -> float:
        """The share at `step`."""
        rising = math.ceil(steps * warmup)
        if step < rising:
            return (step + 1) / rising
        return 0.5 * (1 + math.cos(math.pi * (step - rising) / (steps - rising)))


class Constant:
    """The peak rate to the end (harnessbandit.md, 5.1).

    >>> [round(Constant()(step, 6, 0.3), 2) for step in range(6)]
    [0.5, 1.0, 1.0, 1.0, 1.0, 1.0]
    """

    def __call__(self, step: int, steps: int, warmup: float) -> float:
        """The share at `step`."""
        return min(1.0, (step + 1) / max(1, math.ceil(steps * warmup)))
