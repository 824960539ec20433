"""A small sample of a gradient, by which the gradients of different steps are compared (HarnessBandit, 4.3).

Shapes: D coordinates of the sketch, N coordinates of one tensor or of this rank's part of it.
"""

import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributed import tensor as distributed

_BLOCK = re.compile(r"(?:^|\.)layers\.(\d+)\.")


def last_blocks(model: Any, blocks: int) -> dict[str, Tensor]:
    """The trained parameters of the last transformer blocks, by name; embeddings and head are in none.

    Raises:
        ValueError: no trained parameter is in a block.
    """
    found = {name: p for name, p in model.named_parameters() if p.requires_grad and _BLOCK.search(name)}
    if not found:
        raise ValueError(
            "scheduler=bandit: no trained parameter is in a block (its name has no layers.N); "
            "choose scheduler=round_robin."
        )
    numbers = {name: int(match[1]) for name in found if (match := _BLOCK.search(name))}
    kept = sorted(set(numbers.values()))[-blocks:]
    return {name: p for name, p in found.items() if numbers[name] in kept}


def allot(sizes: Sequence[int], dimension: int) -> list[int]:
    """How many of `dimension` coordinates each tensor gives, in proportion to its size, by largest remainder.

    >>> allot([5, 3, 2], 5), allot([5, 3], 100)
    ([3, 1, 1], [5, 3])
    """
    total = sum(sizes)
    dimension = min(dimension, total)
    shares = [divmod(dimension * size, total) for size in sizes]
    counts = [whole for whole, _ in shares]
    for i in sorted(range(len(sizes)), key=lambda i: (-shares[i][1], i))[: dimension - sum(counts)]:
        counts[i] += 1
    return counts


class GradientSketch:
    """Cosines of a step's gradient with the moving averages of the other harnesses' (`protocols.Sketch`).

    The sample is the same at every step: of each tensor of the last blocks, coordinates drawn from the seed and the
    tensor's name, as many as its share of all. Ranks add their samples up. A tensor that is sharded by rows is sampled
    where its parts lie, so that the sum is the sample of the whole.

    Args:
        dimension: D, or all coordinates where the model has fewer.
        blocks: how many of the last transformer blocks.
        decay: weight of the newest sample in a harness's average.
        seed: the run's seed.
    """

    def __init__(self, dimension: int, blocks: int, decay: float, seed: int) -> None:
        self._dimension, self._blocks, self._decay, self._seed = dimension, blocks, decay, seed
        self._picked: dict[str, Tensor] = {}
        self._averages: dict[str, Tensor] = {}

    def __call__(self, harness: str, model: Any) -> dict[str, float]:
        """The cosine with each other harness that has an average; then this harness's moves."""
        sample_D = self.sample(model)
        cosines = {
            other: float(torch.nn.functional.cosine_similarity(sample_D, average_D, dim=0))
            for other, average_D in self._averages.items()
            if other != harness
        }
        before_D = self._averages.get(harness, sample_D)
        self._averages[harness] = before_D.lerp(sample_D, self._decay)
        return cosines

    @torch.no_grad()
    def sample(self, model: Any) -> Tensor:
        """The sketch of the gradient that the model holds, [D], on the CPU; what has no gradient counts as 0."""
        parameters = last_blocks(model, self._blocks)
        if self._picked.keys() != parameters.keys():
            counts = allot([p.numel() for p in parameters.values()], self._dimension)
            self._picked = {
                name: _picked(f"{self._seed}/{name}", p.numel(), count).to(p.device)
                for (name, p), count in zip(parameters.items(), counts, strict=True)
            }
        parts = [_gathered(p.grad, self._picked[name]) for name, p in parameters.items()]
        sample_D = torch.cat(parts)
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            torch.distributed.all_reduce(sample_D)
            sample_D /= torch.distributed.get_world_size()
        return sample_D.cpu()

    def state_dict(self) -> dict[str, Tensor]:
        """The averages by harness; the sample follows from the seed."""
        return dict(self._averages)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from there."""
        self._averages = dict(state)


def _picked(seed: str, size: int, count: int) -> Tensor:
    return torch.tensor(sorted(random.Random(seed).sample(range(size), count)), dtype=torch.long)


def _gathered(gradient: Tensor | None, picked: Tensor) -> Tensor:
    """The picked coordinates of a gradient in float32; 0 for those that lie at other ranks."""
    if gradient is None:
        return torch.zeros(len(picked), device=picked.device)
    if not isinstance(gradient, distributed.DTensor):
        return gradient.reshape(-1)[picked].float()
    first, flat_N = _first(gradient), gradient.to_local().reshape(-1)
    mine = (picked >= first) & (picked < first + len(flat_N))
    values = torch.zeros(len(picked), device=picked.device)
    values[mine] = flat_N[picked[mine] - first].float()
    return values


def _first(gradient: distributed.DTensor) -> int:
    """The place in the whole tensor, flat, of this rank's first coordinate.

    Raises:
        ValueError: it is sharded in another way than by rows.
    """
    sharded = [(i, p) for i, p in enumerate(gradient.placements) if not p.is_replicate()]
    if not sharded:
        return 0
    (axis, placement), *others = sharded
    if others or not placement.is_shard(0):
        raise ValueError(f"scheduler=bandit: gradients placed as {gradient.placements} are not sampled; shard by rows.")
    rows, mesh = gradient.shape[0], gradient.device_mesh
    each = -(-rows // mesh.size(axis))  # the size of torch.chunk, by which rows are shared out
    return min(rows, mesh.get_local_rank(axis) * each) * (gradient.numel() // rows)
