"""Packing whole sequences into rows, never cutting one (paper, A.2).

Shapes: B rows, T positions, A trained tokens of all rows together.
"""

from collections.abc import Sequence as Many
from dataclasses import dataclass

import torch
from torch import Tensor

from clawloop.training.sequences import Sequence


@dataclass(frozen=True, slots=True)
class Packed:
    """Rows of sequences, and for each trained token where it is predicted and what it weighs.

    `mask_B1TT` is true where a position may look: back, and within its own sequence. It is None where every row holds
    one sequence, padded to the right: then causal attention alone is right, and nothing of T x T is kept. `origin`
    names, for each trained token, its sequence and its place there; `episode_A` numbers its episode.
    """

    ids_BT: Tensor
    position_BT: Tensor
    mask_B1TT: Tensor | None
    row_A: Tensor
    column_A: Tensor
    target_A: Tensor
    behaviour_A: Tensor
    reference_A: Tensor
    advantage_A: Tensor
    weight_A: Tensor
    old_A: Tensor
    episode_A: Tensor
    origin: list[tuple[int, int]]


def rows_of(lengths: Many[int], capacity: int) -> list[list[int]]:
    """First-fit decreasing: which sequences share a row of at most `capacity` tokens.

    A sequence longer than that has a row of its own.

    >>> rows_of([5, 3, 2, 4], 7)
    [[0, 2], [3, 1]]
    """
    rows: list[list[int]] = []
    room: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        for row, left in enumerate(room):
            if lengths[index] <= left:
                rows[row].append(index)
                room[row] -= lengths[index]
                break
        else:
            rows.append([index])
            room.append(capacity - lengths[index])
    return rows


def pack(sequences: Many[Sequence], weights: Many[float], device: torch.device, capacity: int = 0) -> Packed:
    """Rows as long as the longest sequence, or `capacity`, with what each trained token weighs in the loss.

    Args:
        sequences: what to pack.
        weights: by sequence, the weight of each of its trained tokens.
        device: where the tensors go.
        capacity: tokens of a row; the longest sequence's where that is more.
    """
    lengths = [len(sequence.ids) for sequence in sequences]
    rows = rows_of(lengths, max(capacity, *lengths))
    width = max(sum(lengths[i] for i in row) for row in rows)
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    position = torch.arange(width).repeat(len(rows), 1)
    segment = torch.full((len(rows), width), -1, dtype=torch.long)
    spots: list[tuple[int, int, int]] = []
    reals: list[tuple[float, ...]] = []
    number = {name: n for n, name in enumerate(dict.fromkeys(one.episode for one in sequences))}
    origin: list[tuple[int, int]] = []
    for b, row in enumerate(rows):
        start = 0
        for i in row:
            one, end = sequences[i], start + lengths[i]
            ids[b, start:end] = torch.tensor(one.ids)
            position[b, start:end] = torch.arange(lengths[i])
            segment[b, start:end] = i
            for t in (t for t in range(1, lengths[i]) if one.mask[t]):
                spots.append((b, start + t - 1, one.ids[t]))
                known = (values[t] if values else 0.0 for values in (one.logprobs, one.reference, one.old))
                reals.append((*known, one.advantage, weights[i]))
                origin.append((i, t))
            start = end
    mask = None
    if len(rows) < len(sequences):
        segment = segment.to(device)
        causal = torch.ones(width, width, dtype=torch.bool, device=device).tril()
        mask = ((segment[:, :, None] == segment[:, None, :]) & causal)[:, None]
    rows_A, columns_A, targets_A = torch.tensor(spots, device=device).unbind(1)
    behaviour_A, reference_A, old_A, advantage_A, weight_A = torch.tensor(reals, device=device).unbind(1)
    return Packed(
        ids.to(device),
        position.to(device),
        mask,
        rows_A,
        columns_A,
        targets_A,
        behaviour_A,
        reference_A,
        advantage_A,
        weight_A,
        old_A,
        torch.tensor([number[sequences[i].episode] for i, _ in origin], device=device),
        origin,
    )


def cut(sequences: Many[Sequence], micro_tokens: int) -> list[list[int]]:
    """Micro-batches of at most `micro_tokens` tokens, padding counted, by length so that little is padded.

    The sequences of an episode stay together; an episode larger than that is a micro-batch of its own.
    """
    episodes: dict[str, list[int]] = {}
    for i, one in enumerate(sequences):
        episodes.setdefault(one.episode, []).append(i)
    longest = {name: max(len(sequences[i].ids) for i in part) for name, part in episodes.items()}
    batches: list[list[int]] = []
    for name, part in sorted(episodes.items(), key=lambda item: (longest[item[0]], item[1])):
        if batches and (len(batches[-1]) + len(part)) * longest[name] <= micro_tokens:
            batches[-1] += part
        else:
            batches.append(list(part))
    return batches
