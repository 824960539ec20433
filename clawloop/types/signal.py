"""What one optimizer step says of the harnesses that its rollouts were of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import fmean


@dataclass(frozen=True, slots=True)
class StepSignal:
    """L and T of one step (HarnessBandit, 4.2 and 4.3).

    `harnesses` are those of the step's groups. `cosines` holds, by other harness, the cosine of the step's gradient
    with that one's; it is empty where it was not measured or there is no other yet.
    """

    harnesses: tuple[str, ...]
    learnability: float
    cosines: Mapping[str, float] = field(default_factory=dict)

    @property
    def transferability(self) -> float | None:
        """T: the mean cosine with the other harnesses, or None where there is none.

        >>> StepSignal(("shell",), 0.4, {"xml": 0.5, "react": -0.1}).transferability
        0.2
        """
        return fmean(self.cosines.values()) if self.cosines else None
