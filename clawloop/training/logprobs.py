"""The log-probabilities of trained tokens: one forward pass of the model over packed sequences.

Shapes: A trained tokens, V vocabulary, E hidden width.
"""

from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from clawloop.training.packing import Packed

_CHUNK = 1 << 24  # values of a [tokens, V] block that are there at once


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
