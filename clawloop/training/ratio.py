"""The group `ratio`: from log pi_theta - log pi_old of each token to the ratio that weighs its advantage.

Shapes: A trained tokens, E episodes.
"""

import torch
from torch import Tensor


class TokenLevel:
    """Each token has a ratio of its own (Shao et al. 2024)."""

    def __call__(self, log_ratio_A: Tensor, episode_A: Tensor) -> Tensor:
        """The ratio, [A]."""
        return log_ratio_A.exp()


class SequenceLevel:
    """All tokens of an episode share the exponential of their mean log-ratio (Zheng et al. 2025, GSPO).

    An episode may be several sequences; its mean is over the trained tokens of all of them, which therefore must be in
    one micro-batch (`packing.cut`).
    """

    def __call__(self, log_ratio_A: Tensor, episode_A: Tensor) -> Tensor:
        """The ratio, [A]; `episode_A` numbers the episode of each token."""
        episodes = int(episode_A.max()) + 1
        sum_E = log_ratio_A.new_zeros(episodes).index_add(0, episode_A, log_ratio_A)
        return (sum_E / torch.bincount(episode_A, minlength=episodes)).exp()[episode_A]
