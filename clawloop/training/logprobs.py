"""The log-probabilities of trained tokens: one forward pass of the model over packed sequences.

Shapes: N positions, B sequences, T tokens, A trained tokens, V vocabulary, E hidden width.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.checkpoint import checkpoint

from clawloop.training.attention import attend_by_trees, autocast, takes_trees, tree_mask
from clawloop.training.packing import Packed
from clawloop.training.ranks import whole

_CHUNK = 1 << 22  # values of a [tokens, V] block that are there at once


def token_logprobs(model: Any, batch: Packed, temperature: float = 1.0) -> Tensor:
    """The log pi(a_t | ...) of the trained tokens, [A]; logits are computed at those positions only.

    `temperature` is that of the sampling, so that the result compares with behaviour log-probabilities.
    """
    return logprobs_and_entropy(model, batch, temperature)[0]


@whole
def logprobs_and_entropy(model: Any, batch: Packed, temperature: float = 1.0) -> tuple[Tensor, Tensor]:
    """The log-probabilities, and the entropies in nats of what they were drawn from, without gradient, both [A]."""
    hidden_AE = _hidden(model, batch)
    head = model.get_output_embeddings()
    step = max(1, _CHUNK // int(model.config.get_text_config().vocab_size))
    if type(head) is torch.nn.Linear and head.bias is None:
        scored: tuple[Tensor, Tensor] = _Head.apply(
            autocast(hidden_AE), autocast(head.weight), batch.target_A, temperature, step
        )
        return scored
    found = [
        checkpoint(_picked, head, hidden, target, temperature, use_reentrant=False)
        for hidden, target in zip(torch.split(hidden_AE, step), torch.split(batch.target_A, step), strict=True)
    ]
    return torch.cat([one for one, _ in found]), torch.cat([one for _, one in found])


def _hidden(model: Any, batch: Packed) -> Tensor:
    """The last hidden states where trained tokens are predicted, [A, E]; plain rows where the model takes no trees."""
    decoder = model.get_decoder()
    if takes_trees(model):
        attend_by_trees(model)
        hidden_1NE: Tensor = decoder(
            input_ids=batch.ids_N[None],
            attention_mask=tree_mask(batch.end_N),
            position_ids=batch.place_N[None],
            use_cache=False,
        ).last_hidden_state
        return hidden_1NE[0, batch.column_A]
    path_BT = pad_sequence(batch.path, batch_first=True).to(batch.ids_N.device)
    hidden_BTE: Tensor = decoder(input_ids=batch.ids_N[path_BT], use_cache=False).last_hidden_state
    row_A, place_A = torch.tensor(batch.origin, device=path_BT.device).unbind(1)
    return hidden_BTE[row_A, place_A - 1]


def _logits(hidden: Tensor, weight: Tensor, temperature: float) -> Tensor:
    logits = hidden @ weight.T
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return logits if temperature == 1.0 else logits.div_(temperature)


class _Head(torch.autograd.Function):
    """A linear head, log-softmax and choice of the target, chunk by chunk; backward computes the logits again."""

    @staticmethod
    def forward(
        ctx: Any, hidden_AE: Tensor, weight_VE: Tensor, target_A: Tensor, temperature: float, step: int
    ) -> tuple[Tensor, Tensor]:
        picked, entropies, sums = [], [], []
        for hidden, target in zip(torch.split(hidden_AE, step), torch.split(target_A, step), strict=True):
            logits_CV = _logits(hidden, weight_VE, temperature)
            lse = logits_CV.logsumexp(-1, keepdim=True)
            logits_CV -= lse
            picked.append(logits_CV.gather(1, target[:, None])[:, 0])
            entropies.append(-(logits_CV.exp() * logits_CV).sum(-1))
            sums.append(lse)
        ctx.temperature, ctx.step = temperature, step
        ctx.save_for_backward(hidden_AE, weight_VE, target_A, torch.cat(sums))
        entropy_A = torch.cat(entropies)
        ctx.mark_non_differentiable(entropy_A)
        return torch.cat(picked), entropy_A

    @staticmethod
    def backward(ctx: Any, grad_A: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        hidden_AE, weight_VE, target_A, lse_A1 = ctx.saved_tensors
        grad_hidden_AE = torch.empty_like(hidden_AE)
        grad_weight_VE = torch.zeros_like(weight_VE, dtype=lse_A1.dtype) if ctx.needs_input_grad[1] else None
        for i in range(0, len(hidden_AE), ctx.step):
            s = slice(i, i + ctx.step)
            grad_C1 = grad_A[s, None] / ctx.temperature
            logits_CV = _logits(hidden_AE[s], weight_VE, ctx.temperature)
            logits_CV.sub_(lse_A1[s]).exp_().mul_(-grad_C1).scatter_add_(1, target_A[s, None], grad_C1)
            logits_CV = logits_CV.to(weight_VE.dtype)
            torch.mm(logits_CV, weight_VE, out=grad_hidden_AE[s])
            if grad_weight_VE is not None:
                if grad_weight_VE.dtype == weight_VE.dtype:
                    grad_weight_VE.addmm_(logits_CV.T, hidden_AE[s])
                else:
                    grad_weight_VE += logits_CV.T @ hidden_AE[s]
        return grad_hidden_AE, None if grad_weight_VE is None else grad_weight_VE.to(weight_VE.dtype), None, None, None


def _picked(head: Any, hidden_CE: Tensor, target_C: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """The same through the forward of any head."""
    logprobs_CV = torch.log_softmax(head(hidden_CE).float() / temperature, -1)
    picked_C = logprobs_CV.gather(1, target_C[:, None])[:, 0]
    with torch.no_grad():
        return picked_C, -(logprobs_CV.exp() * logprobs_CV).sum(-1)
