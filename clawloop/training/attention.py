"""Attention over a tree of sequences: on the CPU in pieces without a mask, elsewhere by FlexAttention.

The tree lies in one row in depth-first order, and `end_N` says all of it: q looks at k where k <= q < end[k]. So the
keys of a segment [a, b) that ends at e serve two rectangles: the queries [a, b), causally, and all of [b, e). Each is
one call of the flash kernel, and a query's pieces are put together by their logsumexp. For the gradient each piece is
given the whole output and logsumexp, from which the kernel finds its share (as in ring attention, Liu et al. 2023). No
pair of positions is computed that is not looked at, and nothing of N x N is kept.

Shapes: N positions, Q heads of queries, K heads of keys and values, G = Q / K, D width of a head.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.flex_attention import flex_attention_forward
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

_flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_flash_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


def takes_trees(model: Any) -> bool:
    """Whether every layer looks at the whole past and nothing else, by way of transformers' attention interface.

    A recurrent layer would carry its state from one branch into the next, and a window counts places in the row.
    """
    config = model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    windowed = getattr(config, "sliding_window", None) is not None
    return bool(model._supports_attention_backend) and kinds == {"full_attention"} and not windowed


def attend_by_trees(model: Any) -> None:
    """Have `model` understand the masks of `tree_mask`; with any other mask it attends as by `sdpa`."""
    if model.config._attn_implementation != "tree":
        AttentionInterface.register("tree", _attend)
        AttentionMaskInterface.register("tree", sdpa_mask)
        model.set_attn_implementation("tree")


def tree_mask(end_N: Tensor) -> Tensor | BlockMask:
    """What transformers hands on to every layer as it is: `end_N` as [1, 1, 1, N] on the CPU, else a BlockMask."""
    return end_N[None, None, None] if end_N.device.type == "cpu" else block_mask(end_N)


def block_mask(end_N: Tensor) -> BlockMask:
    """The tree for FlexAttention, which skips blocks in which nothing is looked at."""

    def looks(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return (k <= q) & (q < end_N[k])

    return create_block_mask(looks, None, None, len(end_N), len(end_N), device=end_N.device.type)


def autocast(x: Tensor) -> Tensor:
    """What autocast would make of an argument, for operations that it does not know."""
    kind = x.device.type
    return x.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else x


def pieces(end_N: Tensor) -> list[tuple[slice, slice, bool, bool]]:
    """Rectangles (queries, keys, causal, first): `first` where no piece before had these queries.

    >>> for piece in pieces(torch.tensor([5, 5, 3, 5, 5])): print(piece)
    (slice(0, 2, None), slice(0, 2, None), True, True)
    (slice(2, 5, None), slice(0, 2, None), False, True)
    (slice(2, 3, None), slice(2, 3, None), True, False)
    (slice(3, 5, None), slice(3, 5, None), True, False)
    """
    found = []
    a = seen = 0
    ends, counts = torch.unique_consecutive(end_N, return_counts=True)
    for e, count in zip(ends.tolist(), counts.tolist(), strict=True):
        b = a + count
        found.append((slice(a, b), slice(a, b), True, a >= seen))
        if e > b:
            found.append((slice(b, e), slice(a, b), False, a >= seen))
        a, seen = b, max(seen, e)
    return found


def _attend(module: Any, q: Tensor, k: Tensor, v: Tensor, mask: Any, **rest: Any) -> tuple[Tensor, Tensor | None]:
    """An attention function of transformers: q [1, Q, N, D], k and v [1, K, N, D] to [1, N, Q, D]."""
    if isinstance(mask, BlockMask):
        return flex_attention_forward(module, q, k, v, mask, **rest)
    if mask is None or mask.dtype != torch.long:
        return sdpa_attention_forward(module, q, k, v, mask, **rest)
    if rest.get("dropout"):
        raise ValueError("A tree of sequences has no dropout of attention; set attention_dropout of the model to 0.")
    q, k, v = autocast(q), autocast(k), autocast(v)
    groups = q.shape[1] // k.shape[1]
    q_GKND = q[0].view(-1, groups, *q.shape[2:]).transpose(0, 1)
    scale = rest.get("scaling") or q.shape[-1] ** -0.5
    out_GKND = _Tree.apply(  # type: ignore[no-untyped-call]
        q_GKND, k.expand(groups, -1, -1, -1), v.expand(groups, -1, -1, -1), mask.flatten(), scale
    )
    return out_GKND.permute(2, 1, 0, 3).flatten(1, 2)[None], None


class _Tree(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q_GKND: Tensor, k_GKND: Tensor, v_GKND: Tensor, end_N: Tensor, scale: float) -> Tensor:
        ctx.pieces, ctx.scale = pieces(end_N), scale
        exact = torch.promote_types(q_GKND.dtype, torch.float32)
        out_GKND = torch.empty_like(q_GKND, dtype=exact)
        lse_GKN = q_GKND.new_empty(q_GKND.shape[:3], dtype=exact)
        for queries, keys, causal, first in ctx.pieces:
            piece, piece_lse = _flash(
                q_GKND[:, :, queries], k_GKND[:, :, keys], v_GKND[:, :, keys], 0.0, causal, scale=scale
            )
            out, lse = out_GKND[:, :, queries], lse_GKN[:, :, queries]
            if first:
                out.copy_(piece)
                lse.copy_(piece_lse)
            else:
                out.lerp_(piece.to(exact), torch.sigmoid(piece_lse - lse)[..., None])
                torch.logaddexp(lse, piece_lse, out=lse)
        out_GKND = out_GKND.to(q_GKND.dtype)
        ctx.save_for_backward(q_GKND, k_GKND, v_GKND, out_GKND, lse_GKN)
        return out_GKND

    @staticmethod
    def backward(ctx: Any, grad_GKND: Tensor) -> tuple[Tensor | None, ...]:
        q_GKND, k_GKND, v_GKND, out_GKND, lse_GKN = ctx.saved_tensors
        found = [torch.empty_like(x, memory_format=torch.contiguous_format) for x in (q_GKND, k_GKND, v_GKND)]
        for queries, keys, causal, first in ctx.pieces:
            q, out, lse, grad = (x[:, :, queries] for x in (q_GKND, out_GKND, lse_GKN, grad_GKND))
            k, v = k_GKND[:, :, keys], v_GKND[:, :, keys]
            shares = _flash_backward(grad, q, k, v, out, lse, 0.0, causal, scale=ctx.scale)
            where, new = (queries, keys, keys), (first, causal, causal)
            for whole, share, place, set_ in zip(found, shares, where, new, strict=True):
                whole[:, :, place].copy_(share) if set_ else whole[:, :, place].add_(share)
        return *found, None, None
