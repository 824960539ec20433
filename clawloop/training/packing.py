"""Packing whole sequences, never cutting one, with what they share held once (paper, A.2).

Sequences that begin alike, as the rollouts of a group and the branches of an episode do, form a tree. Laid out in
depth-first order in one row, each of its positions may look at itself and its ancestors: `attention.py` says how.

Shapes: N positions of the row, A trained tokens.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator
from collections.abc import Sequence as Many
from dataclasses import dataclass

import numpy
import torch
from torch import Tensor

from clawloop.training.sequences import Sequence


@dataclass(frozen=True, slots=True)
class Packed:
    """One row of sequences, and for each trained token where it is predicted and what it weighs.

    Position q looks at k where k <= q < `end_N[k]`; `place_N` counts from the beginning of a sequence. `path` has for
    each sequence the positions of its tokens. `origin` names, for each trained token, its sequence and its place there;
    a token that several sequences share is trained once for each, at the same `column_A`.
    """

    ids_N: Tensor
    place_N: Tensor
    end_N: Tensor
    path: list[Tensor]
    column_A: Tensor
    target_A: Tensor
    behaviour_A: Tensor
    reference_A: Tensor
    advantage_A: Tensor
    weight_A: Tensor
    old_A: Tensor
    episode_A: Tensor
    origin: list[tuple[int, int]]


def _alike(sequences: Many[Sequence]) -> Iterator[tuple[int, int]]:
    """The sequences in depth-first order of their tree, each with how many tokens it shares with the one before."""
    before = numpy.empty(0, numpy.int64)
    for i in sorted(range(len(sequences)), key=lambda i: sequences[i].ids):
        ids = numpy.asarray(sequences[i].ids)
        both = min(len(before), len(ids))
        differ = before[:both] != ids[:both]
        yield i, int(differ.argmax()) if differ.any() else both
        before = ids


def pack(sequences: Many[Sequence], weights: Many[float], device: torch.device) -> Packed:
    """One row with each shared beginning once, and what each trained token weighs in the loss.

    Args:
        sequences: what to pack.
        weights: by sequence, the weight of each of its trained tokens.
        device: where the tensors go.
    """
    path = [torch.empty(0, dtype=torch.long)] * len(sequences)
    ids: list[int] = []
    place: list[int] = []
    end = torch.zeros(sum(len(one.ids) for one in sequences), dtype=torch.long)
    last = path[0]
    for i, shared in _alike(sequences):
        end[last[shared:]] = len(ids)
        fresh = torch.arange(len(ids), len(ids) + len(sequences[i].ids) - shared)
        path[i] = last = torch.cat([last[:shared], fresh])
        ids += sequences[i].ids[shared:]
        place += range(shared, len(sequences[i].ids))
    end[last] = len(ids)

    origin = [(i, t) for i, one in enumerate(sequences) for t in range(1, len(one.ids)) if one.mask[t]]
    columns = torch.cat([path[i][:-1][torch.tensor(one.mask[1:], dtype=torch.bool)] for i, one in enumerate(sequences)])
    number = {name: n for n, name in enumerate(dict.fromkeys(one.episode for one in sequences))}
    reals: list[tuple[float, ...]] = []
    for i, t in origin:
        one = sequences[i]
        known = (values[t] if values else 0.0 for values in (one.logprobs, one.reference, one.old))
        reals.append((*known, one.advantage, weights[i]))
    behaviour_A, reference_A, old_A, advantage_A, weight_A = torch.tensor(reals, device=device).unbind(1)
    return Packed(
        torch.tensor(ids, device=device),
        torch.tensor(place, device=device),
        end[: len(ids)].to(device),
        path,
        columns.to(device),
        torch.tensor([sequences[i].ids[t] for i, t in origin], device=device),
        behaviour_A,
        reference_A,
        advantage_A,
        weight_A,
        old_A,
        torch.tensor([number[sequences[i].episode] for i, _ in origin], device=device),
        origin,
    )


def fill(sizes: Many[int], room: int) -> list[list[int]]:
    """Best-fit decreasing: which sizes share a bin of at most `room`, in O(n log n) comparisons.

    A size above that has a bin of its own.

    >>> fill([5, 3, 2, 4], 7)
    [[0, 2], [3, 1]]
    """
    bins: list[list[int]] = []
    left: list[tuple[int, int]] = []  # what is left in a bin, and the bin; sorted
    for i in sorted(range(len(sizes)), key=lambda i: (-sizes[i], i)):
        spot = bisect_left(left, (sizes[i], 0))
        if spot < len(left):
            rest, b = left.pop(spot)
        else:
            rest, b = max(room, sizes[i]), len(bins)
            bins.append([])
        bins[b].append(i)
        insort(left, (rest - sizes[i], b))
    return bins


def cut(sequences: Many[Sequence], micro_tokens: int, shared: bool = True) -> list[list[int]]:
    """Micro-batches of at most `micro_tokens` positions. The sequences of an episode stay together.

    An episode larger than that is a micro-batch of its own. The tree of the episodes' first sequences is packed from
    its leaves up: at each branching, what hangs there goes into as few bins as fit beside the tokens above it, which
    each bin repeats. Where nothing is shared this is best-fit decreasing.

    Args:
        sequences: what to cut.
        micro_tokens: positions of a micro-batch.
        shared: whether the model takes trees (`attention.takes_trees`). One that does not has a padded row for each
            sequence, and then they go by length.
    """
    episodes: dict[str, list[int]] = {}
    for i, one in enumerate(sequences):
        episodes.setdefault(one.episode, []).append(i)
    parts = list(episodes.values())
    if not shared:
        return _rows(sequences, parts, micro_tokens)
    trees = [list(_alike([sequences[i] for i in part])) for part in parts]
    firsts = [sequences[part[tree[0][0]]] for part, tree in zip(parts, trees, strict=True)]
    above: list[tuple[int, list[_Bin]]] = [(0, [])]  # the branchings above the episode at hand: depth, what hangs there
    for e, common in _alike(firsts):
        _close(above, common, micro_tokens)
        tokens = sum(len(sequences[parts[e][i]].ids) - twice for i, twice in trees[e])
        above.append((tokens, [(0, parts[e])]))
    _close(above, 0, micro_tokens)
    return [chosen for _, chosen in _filled(above[0][1], micro_tokens)]


_Bin = tuple[int, list[int]]  # its tokens below a branching, and its sequences


def _close(above: list[tuple[int, list[_Bin]]], depth: int, micro_tokens: int) -> None:
    """Pack every branching deeper than `depth`, and hang its bins at the one above it, which ends no higher."""
    while above[-1][0] > depth:
        here, bins = above.pop()
        if above[-1][0] < depth:
            above.append((depth, []))
        up, others = above[-1]
        others += [(size + here - up, chosen) for size, chosen in _filled(bins, micro_tokens - here)]


def _filled(bins: list[_Bin], room: int) -> list[_Bin]:
    return [
        (sum(bins[b][0] for b in group), [i for b in group for i in bins[b][1]])
        for group in fill([size for size, _ in bins], room)
    ]


def _rows(sequences: Many[Sequence], parts: list[list[int]], micro_tokens: int) -> list[list[int]]:
    """By length, so that little is padded."""
    batches: list[list[int]] = []
    for longest, part in sorted((max(len(sequences[i].ids) for i in part), part) for part in parts):
        if batches and (len(batches[-1]) + len(part)) * longest <= micro_tokens:
            batches[-1] += part
        else:
            batches.append(list(part))
    return batches
