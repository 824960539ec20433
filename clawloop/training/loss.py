"""Eq. 1 and Eq. 2 as losses over trained tokens.

Shapes: A trained tokens.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from clawloop.training.packing import Packed


def sft(logprobs_A: Tensor, weight_A: Tensor) -> Tensor:
    """Eq. 1, minus the weighted sum of log-probabilities. With weight 1 it is the paper's sum."""
    return -(logprobs_A * weight_A).sum()


@dataclass(frozen=True, slots=True)
class Grpo:
    """The loss, and sums over tokens weighted like it: KL to the reference, clipped share, ratio."""

    loss: Tensor
    kl: Tensor
    clipped: Tensor
    ratio: Tensor


def grpo(logprobs_A: Tensor, batch: Packed, *, clip: float, beta: float) -> Grpo:
    """The clipped surrogate with the advantages of Eq. 2, minus beta times the KL to the reference (Shao et al. 2024).

    The ratio is to the behaviour log-probabilities of the ledger, so rollouts reused after SFT count as off-policy. The
    KL estimator is exp(d) - d - 1 with d = log ref - log pi, which is unbiased and not negative.
    """
    ratio_A = torch.exp(logprobs_A - batch.behaviour_A)
    clipped_A = ratio_A.clamp(1 - clip, 1 + clip)
    gain_A = torch.minimum(ratio_A * batch.advantage_A, clipped_A * batch.advantage_A)
    d_A = batch.reference_A - logprobs_A
    kl_A = torch.exp(d_A) - d_A - 1
    loss = -((gain_A - beta * kl_A) * batch.weight_A).sum()
    with torch.no_grad():
        cut_A = (ratio_A * batch.advantage_A > clipped_A * batch.advantage_A).float()
        sums = [(values * batch.weight_A).sum() for values in (kl_A, cut_A, ratio_A)]
    return Grpo(loss, *sums)
