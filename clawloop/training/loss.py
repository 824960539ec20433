"""Eq. 1 and Eq. 2 as losses over trained tokens.

Shapes: A trained tokens, V vocabulary, E hidden width.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from clawloop.training.packing import Packed
from clawloop.training.ranks import whole

_CHUNK = 1 << 24  # values of a [tokens, V] block that are there at once


@whole
def token_logprobs(model: Any, batch: Packed, temperature: float = 1.0) -> Tensor:
    """The log pi(a_t | ...) of the trained tokens, [A]; logits are computed at those positions only.

    `temperature` is that of the sampling, so that the result compares with behaviour log-probabilities.
    """
    hidden_BTE = model.get_decoder()(
        input_ids=batch.ids_BT, attention_mask=batch.mask_B1TT, position_ids=batch.position_BT, use_cache=False
    ).last_hidden_state
    hidden_AE = hidden_BTE[batch.row_A, batch.column_A]
    head = model.get_output_embeddings()
    step = max(1, _CHUNK // int(model.config.vocab_size))
    pieces = []
    for start in range(0, len(hidden_AE), step):
        part = hidden_AE[start : start + step], batch.target_A[start : start + step]
        if len(hidden_AE) <= step:
            pieces.append(_picked(head, *part, temperature))
        else:
            pieces.append(checkpoint(_picked, head, *part, temperature, use_reentrant=False))
    return torch.cat(pieces)


def _picked(head: Any, hidden_AE: Tensor, target_A: Tensor, temperature: float) -> Tensor:
    logits_AV = head(hidden_AE).float() / temperature
    return -torch.nn.functional.cross_entropy(logits_AV, target_A, reduction="none")


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
