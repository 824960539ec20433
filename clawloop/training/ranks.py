"""Numbers over all processes of a stage; where there is one process, they stay as they are."""

from collections.abc import Sequence

import torch
from torch import distributed


def summed(values: Sequence[float], device: torch.device) -> list[float]:
    """Each value added up over the ranks."""
    return _reduced(values, device, distributed.ReduceOp.SUM)


def largest(values: Sequence[float], device: torch.device) -> list[float]:
    """The largest of each value over the ranks."""
    return _reduced(values, device, distributed.ReduceOp.MAX)


def _reduced(values: Sequence[float], device: torch.device, how: distributed.ReduceOp.RedOpType) -> list[float]:
    if not (distributed.is_available() and distributed.is_initialized()):
        return list(values)
    together = torch.tensor(values, dtype=torch.float64, device=device)
    distributed.all_reduce(together, how)
    found: list[float] = together.tolist()
    return found
