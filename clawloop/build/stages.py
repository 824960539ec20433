"""The stages of an iteration: what their losses are made of, what they train, and where they are run."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from clawloop.build.part import part, parts
from clawloop.config.errors import ConfigError
from clawloop.config.spine import OBJECTIVE
from clawloop.protocols import Policy, Stage
from clawloop.store.layout import Layout
from clawloop.training.adapter.lora import Lora
from clawloop.training.reference import Iteration
from clawloop.training.setup import Setup


def stages(
    config: Mapping[str, Any], layout: Layout, *, policy: Policy, theta: Callable[[int], Path], **handed: Any
) -> dict[str, Stage]:
    """The stages, with their adapters, where they are run; none for a policy without weights.

    Args:
        config: the run's.
        layout: of its folder.
        policy: theta_0.
        theta: the folder of theta_k's weights, by k.
        handed: the source of batches, the tracker, and the step that an axis has reached.

    Raises:
        ConfigError: the reference is another network than the one that an adapter lies on.
    """
    chosen = {name: config[name] for name in OBJECTIVE}
    handed |= parts(chosen, theta=theta)
    if not hasattr(policy, "model"):
        return {}
    seed = int(config["seed"])
    adapter = part(config["adapter"], seed=seed)
    if isinstance(adapter, Lora) and isinstance(handed["reference"], Iteration) and "grpo" in config["trainer"]:
        raise ConfigError(
            "reference=iteration: adapter=lora trains over the network that enters the stage, and the KL is to that; "
            "choose reference=stage, or adapter=full."
        )
    launch = part(config["launch"], folder=layout.training, **handed)
    built = parts(config["trainer"], seed=seed, setup=Setup(**config["setup"], folder=layout.training), **handed)
    spec = {"objective": chosen, **{name: config[name] for name in ("adapter", "setup", "seed")}}
    return {name: launch.over(one, adapter, {**spec, "stage": config["trainer"][name]}) for name, one in built.items()}
