"""Going on in the middle of a stage: the step that was reached, the weights, the optimizer and the noise.

Batches follow from the seed alone, so where they stand is the number of steps. What is kept lies in parts, one a rank
(torch.distributed.checkpoint), and may be read by another number of ranks.
"""

import shutil
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from clawloop.training import ranks

_OPTIONS = StateDictOptions(ignore_frozen_params=True, strict=False)


def reached(folder: Path) -> int:
    """The last step that was kept whole in a folder; 0 where there is none."""
    return max((int(path.suffix[1:]) for path in folder.glob("step.*") if path.suffix[1:].isdigit()), default=0)


def keep(folder: Path, step: int, before: int, model: Any, optimizer: torch.optim.Optimizer) -> None:
    """Keep all that step + 1 depends on, whole or not at all wherever the process is killed.

    Args:
        folder: the stage's own.
        step: of the stage.
        before: the step that the stage's axis had reached when the stage began.
        model: what is trained; what is frozen in it is not kept.
        optimizer: of its parameters.
    """
    unfinished, kept = folder / "unfinished", folder / f"step.{step}"
    save(_state(before, model, optimizer), checkpoint_id=unfinished, no_dist=ranks.count() == 1)
    if ranks.number() == 0:
        unfinished.rename(kept)
        for old in folder.glob("step.*"):
            if old != kept:
                shutil.rmtree(old)
    if ranks.count() > 1:
        distributed.barrier()


def restore(folder: Path, step: int, model: Any, optimizer: torch.optim.Optimizer) -> int:
    """Put back what was kept at a step, and return its `before`."""
    optimizer.zero_grad()  # where a gradient is left, moments that are not there yet are not made
    state = _state(0, model, optimizer)
    load(state, checkpoint_id=folder / f"step.{step}", no_dist=ranks.count() == 1)
    set_state_dict(
        model,
        optimizer,
        model_state_dict=state["model"],
        optim_state_dict=state["optimizer"],
        options=_OPTIONS,
    )
    torch.set_rng_state(state["noise"])
    if torch.cuda.is_available():
        torch.cuda.set_rng_state(state["noise_cuda"])
    return int(state["before"])


def _state(before: int, model: Any, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    weights, moments = get_state_dict(model, optimizer, options=_OPTIONS)
    noise: dict[str, Tensor] = {"noise": torch.get_rng_state()}
    if torch.cuda.is_available():
        noise["noise_cuda"] = torch.cuda.get_rng_state()
    return {"model": weights, "optimizer": moments, "before": torch.tensor(before), **noise}
