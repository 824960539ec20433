"""A LoRA adapter on a transformers network: laid over its linear layers in place, written down, merged into them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save

_PREFIX = "base_model.model."  # what peft writes before the names of a network's tensors


def attached(model: Any) -> bool:
    """Whether a network has an adapter."""
    return hasattr(model, "peft_config")


def attach(model: Any, rank: int, alpha: float, targets: str | Sequence[str], seed: int) -> None:
    """Lay a new adapter over a network, which says what it said before: only the adapter can be trained.

    Args:
        model: a transformers network.
        rank: width of the product that is added to each weight.
        alpha: it is scaled by alpha / rank.
        targets: names of the linear layers that have one, or all-linear for all but the head.
        seed: of the product's first factor; the second is 0.

    Raises:
        ValueError: peft is not installed, or no layer is called so.
    """
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ModuleNotFoundError as error:
        raise ValueError(
            "adapter=lora: peft is not installed; pip install 'clawloop[lora]', or choose adapter=full."
        ) from error
    wanted = targets if isinstance(targets, str) else list(targets)
    config = LoraConfig(r=rank, lora_alpha=alpha, target_modules=wanted, task_type="CAUSAL_LM")  # type: ignore[arg-type]
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        try:
            inject_adapter_in_model(config, model)
        except ValueError as error:
            raise ValueError(f"adapter.targets: {targets} names no linear layers of this model ({error}).") from error


def merge(model: Any) -> dict[str, bytes]:
    """Add the adapter to the weights in place, take it off, and return its files as peft writes them."""
    kept = written(model)
    layers = {name: module for name, module in model.named_modules() if hasattr(module, "get_delta_weight")}
    with torch.no_grad():
        for name, layer in layers.items():
            base: Any = layer.get_base_layer()
            base.weight += layer.get_delta_weight(layer.active_adapter[0])
            model.set_submodule(name, base)
    del model.peft_config
    model.requires_grad_(True)
    return kept


def bare(model: Any) -> dict[str, torch.Tensor]:
    """The weights of a network by their names without an adapter, and without what it adds."""
    state = model.state_dict()
    return {name.replace(".base_layer.", "."): tensor for name, tensor in state.items() if ".lora_" not in name}


def written(model: Any) -> dict[str, bytes]:
    """The adapter alone, as the files that peft writes."""
    from peft import get_peft_model_state_dict

    (config,) = model.peft_config.values()
    state = get_peft_model_state_dict(model)
    tensors = {_PREFIX + name: tensor.detach().to("cpu").contiguous() for name, tensor in state.items()}
    settings = json.dumps(config.to_dict(), indent=2, sort_keys=True, default=sorted)  # it has sets of names
    return {"adapter_config.json": settings.encode(), "adapter_model.safetensors": save(tensors)}


def files(folder: Path) -> dict[str, bytes]:
    """The files of an adapter; none where there is no such folder."""
    return {path.name: path.read_bytes() for path in folder.glob("adapter_*")}
