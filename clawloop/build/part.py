"""From the yaml of a part to the part."""

import inspect
from collections.abc import Mapping
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from clawloop.protocols import Policy
from clawloop.store import weights
from clawloop.store.layout import cache


def part(config: Mapping[str, Any], /, **handed: Any) -> Any:
    """One part: the class that `_target_` names, with its yaml's arguments and those of `handed` that it asks for."""
    kind, wanted = _kind(config)
    arguments = {name: value for name, value in config.items() if name != "_target_"}
    return kind(**arguments | {name: value for name, value in handed.items() if name in wanted})


def asks_for(config: Mapping[str, Any], name: str) -> bool:
    """Whether a part has an argument of that name."""
    return name in _kind(config)[1]


def _kind(config: Mapping[str, Any]) -> tuple[Any, Mapping[str, inspect.Parameter]]:
    module, name = str(config["_target_"]).rsplit(".", 1)
    kind = resolve_name(f"{module}:{name}")
    return kind, inspect.signature(kind).parameters


def parts(config: Mapping[str, Mapping[str, Any]], /, **handed: Any) -> dict[str, Any]:
    """The parts of a list group, by name."""
    return {name: part(one, **handed) for name, one in config.items()}


def agent(config: Mapping[str, Any], source: Path | None = None, **handed: Any) -> Policy:
    """theta_0: the chosen policy with the weights of the chosen model, which are looked for where none are given.

    Raises:
        ValueError: there are no such weights, or the policy cannot be had; in one sentence.
    """
    weight = source or weights.find(config["model"]["source"], cache())
    policy: Policy = part(config["policy"], weights=weight, version="theta_0", **handed)
    return policy
