"""Eq. 1 and Eq. 2 as losses over trained tokens.

Shapes: A trained tokens.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from clawloop.training.correction import Correction
from clawloop.training.packing import Packed


def sft(logprobs_A: Tensor, weight_A: Tensor) -> Tensor:
    """Eq. 1, minus the weighted sum of log-probabilities. With weight 1 it is the paper's sum."""
    return -(logprobs_A * weight_A).sum()


@dataclass(frozen=True, slots=True)
class Choices:
    """What GRPO's loss is made of: the parts of the groups `clip`, `ratio`, `kl` and `correction`, and beta."""

    clip: Callable[[Tensor], Tensor]
    ratio: Callable[[Tensor, Tensor], Tensor]
    kl: Callable[[Tensor, Tensor], Tensor]
    correction: Correction
    beta: float


@dataclass(frozen=True, slots=True)
class Grpo:
    """The loss, what it was over each token added up, and the largest distance from the behaviour, in nats."""

    loss: Tensor
    sums: dict[str, Tensor]
    farthest: Tensor


def grpo(logprobs_A: Tensor, batch: Packed, choices: Choices) -> Grpo:
    """The clipped surrogate with the advantages of Eq. 2, and beta times the KL to the reference (Shao et al. 2024).

    The correction says what the ratio is to; its factor is on the surrogate and not on the KL. With beta 0 there is no
    KL, and the reference is not looked at.
    """
    old_A, factor_A = choices.correction(batch.behaviour_A, batch.old_A)
    ratio_A = choices.ratio(logprobs_A - old_A, batch.episode_A)
    gain_A = ratio_A * batch.advantage_A
    clipped_A = choices.clip(ratio_A) * batch.advantage_A
    cost_A = -factor_A * torch.minimum(gain_A, clipped_A)
    with torch.no_grad():
        drift_A = logprobs_A - batch.behaviour_A
        per_token = {
            "clip_fraction": (gain_A > clipped_A).float(),
            "ratio": ratio_A,
            "correction": factor_A,
            "drift": drift_A.abs(),
            "drift_kl": drift_A.exp() - 1 - drift_A,
        }
    if choices.beta:
        per_token["kl"] = choices.kl(logprobs_A, batch.reference_A)
        cost_A = cost_A + choices.beta * per_token["kl"]
    sums = {name: values_A.detach().sum() for name, values_A in per_token.items()}
    return Grpo((cost_A * batch.weight_A).sum(), sums, drift_A.abs().max())
