"""The processes that train one network together, one a device. In a process alone, nothing here changes anything."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from types import MethodType
from typing import Any, ParamSpec, TypeVar

import torch
from lightning.pytorch.strategies import ModelParallelStrategy
from torch import Tensor, distributed
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor

T = TypeVar("T")
P = ParamSpec("P")
_RUN = "run_whole"


def count() -> int:
    """How many they are, on all machines together."""
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def number() -> int:
    """Which of them this is, from 0."""
    return distributed.get_rank() if count() > 1 else 0


def placement(device: torch.device) -> dict[str, Any]:
    """What a Lightning trainer must be told about them, for a network on `device`."""
    accelerator = "gpu" if device.type == "cuda" else "cpu"
    if count() == 1:
        return {"accelerator": accelerator, "devices": [device.index or 0] if device.type == "cuda" else 1}
    here = int(os.environ["LOCAL_WORLD_SIZE"])
    strategy = ModelParallelStrategy(data_parallel_size=count(), tensor_parallel_size=1)
    return {"accelerator": accelerator, "devices": here, "num_nodes": count() // here, "strategy": strategy}


def share(parts: Sequence[T]) -> Iterator[tuple[T, float]]:
    """This rank's micro-batches, each with its weight, 1.

    All ranks know all parts and take turns. Each gets as many as the others, since they wait for one another in every
    forward and backward pass; one that it has only for that reason weighs 0.
    """
    for start in range(0, len(parts), count()):
        mine = start + number()
        yield (parts[mine], 1.0) if mine < len(parts) else (parts[0], 0.0)


def add(sums: Mapping[str, float]) -> dict[str, float]:
    """The sums over all ranks."""
    if count() == 1:
        return dict(sums)
    everyone: list[dict[str, float]] = [{}] * count()
    distributed.all_gather_object(everyone, dict(sums))
    return {name: sum(one[name] for one in everyone) for name in sums}


def gather(mine: list[T]) -> list[T]:
    """What all ranks have, in their order."""
    if count() == 1:
        return mine
    everyone: list[list[T]] = [[]] * count()
    distributed.all_gather_object(everyone, mine)
    return [one for theirs in everyone for one in theirs]


def shard(model: Any) -> None:
    """Lay a transformers network out over the ranks in place (FSDP2): each block apart, the rest together."""
    if count() == 1:
        return
    mesh = init_device_mesh(next(model.parameters()).device.type, (count(),))
    for block in model.get_decoder().layers:
        fully_shard(block, mesh=mesh)
    setattr(model, _RUN, MethodType(lambda self, work, *args, **kwargs: work(self, *args, **kwargs), model))
    fully_shard(model, mesh=mesh)
    register_fsdp_forward_method(model, _RUN)


def whole(work: Callable[P, T]) -> Callable[P, T]:
    """For a function of a network that is no forward of it: a sharded one is put together for it as for a forward."""

    @wraps(work)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        model: Any = args[0]
        if isinstance(model, FSDPModule):
            result: T = getattr(model, _RUN)(work, *args[1:], **kwargs)
            if not torch.is_grad_enabled():
                model.reshard()  # it would stay together for a backward pass
            return result
        return work(*args, **kwargs)

    return run


def scalar(value: Tensor) -> Tensor:
    """A number that the ranks may hold in parts, whole."""
    return value.full_tensor() if isinstance(value, DTensor) else value


def part(value: Tensor) -> Tensor:
    """What this rank holds of a tensor, in the same memory."""
    return value.to_local() if isinstance(value, DTensor) else value


def full_state(model: torch.nn.Module) -> dict[str, Tensor]:
    """The state of a sharded network, whole, on the CPU of rank 0; empty at the others, who must ask for it too."""
    state: dict[str, Any] = get_model_state_dict(
        model, options=StateDictOptions(full_state_dict=True, cpu_offload=True)
    )
    return state
