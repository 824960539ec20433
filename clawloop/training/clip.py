"""The group `clip`: the ratio that the surrogate may gain from.

Shapes: A trained tokens.
"""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Clip:
    """The ratio within 1 - low ... 1 + high (PPO; with low < high, clip-higher: Yu et al. 2025, DAPO)."""

    low: float
    high: float

    def __call__(self, ratio_A: Tensor) -> Tensor:
        """The clipped ratio, [A]."""
        return ratio_A.clamp(1 - self.low, 1 + self.high)


class NoClip:
    """The ratio as it is."""

    def __call__(self, ratio_A: Tensor) -> Tensor:
        """The same, [A]."""
        return ratio_A
