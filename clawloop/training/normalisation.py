"""The group `normalisation`: what a trained token weighs in the loss of an optimizer step.

The counts are those of the whole step, over all micro-batches and ranks, so that neither changes the loss. An episode
may be several sequences; it counts once.
"""

from dataclasses import dataclass


class PerToken:
    """Every token weighs the same: the loss is a mean over the tokens of the step (Yu et al. 2025, DAPO)."""

    def __call__(self, own: int, episodes: int, tokens: int) -> float:
        """The weight of a token in an episode with `own` trained tokens, in a step of so many episodes and tokens."""
        return 1 / tokens


class PerSequence:
    """Every episode weighs the same: a mean over episodes of the mean over its tokens (Shao et al. 2024)."""

    def __call__(self, own: int, episodes: int, tokens: int) -> float:
        """The weight of a token in an episode with `own` trained tokens, in a step of so many episodes and tokens."""
        return 1 / (episodes * own)


@dataclass(frozen=True, slots=True)
class Constant:
    """A mean over episodes of the sum over its tokens, divided by one constant length (Liu et al. 2025, Dr.GRPO).

    A token weighs the same in a long episode as in a short one, and in a step of long episodes as in one of short ones.

    Args:
        length: the constant, in tokens.
    """

    length: int

    def __post_init__(self) -> None:
        """Refuse a length that cannot divide."""
        if self.length < 1:
            raise ValueError(f"normalisation.length is {self.length}; set it to the longest episode, in tokens.")

    def __call__(self, own: int, episodes: int, tokens: int) -> float:
        """The weight of a token in an episode with `own` trained tokens, in a step of so many episodes and tokens."""
        return 1 / (episodes * self.length)
