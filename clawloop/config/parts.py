"""From a composed config to plain, checked values: nothing unknown, nothing missing, every part's arguments fit."""

import inspect
from collections.abc import Iterator, Mapping
from pkgutil import resolve_name
from typing import Any, get_type_hints

import msgspec
from omegaconf import DictConfig, OmegaConf

from clawloop.config.errors import ConfigError, did_you_mean, missing
from clawloop.config.folders import options
from clawloop.config.spine import OBJECTIVE, ONE_PART, SEVERAL_PARTS, Config

HANDED = frozenset(
    [
        "gateway",
        "sandboxes",
        "grader",
        "checks",
        "weights",
        "version",
        "seed",
        "tracker",
        "scratch",
        "folder",
        "config",
        "reached",
        "source",
        "setup",
        "scheduler",
        "harnesses",
        "harness_of",
        "roll_out",
        "trajectories",
        "theta",
        *OBJECTIVE,
    ]
)
"""Arguments that `build` hands to the parts that ask for them, so that no yaml names them."""


def plain(config: DictConfig, given: tuple[str, ...] = ()) -> dict[str, Any]:
    """The config as dicts, lists and scalars, with nothing left to resolve.

    What an experiment or a scale says about a part that is not chosen is dropped; `given` are the overrides of the
    command line, which may not speak of such a part.

    Raises:
        ConfigError: in one sentence. OmegaConf's own errors, for `errors.sentence`, where a key is unknown or a
            value has the wrong type.
    """
    whole = OmegaConf.merge(OmegaConf.structured(Config), OmegaConf.to_container(config, resolve=False))
    assert isinstance(whole, DictConfig)
    for group in SEVERAL_PARTS:
        for name in [name for name, part in whole[group].items() if "_target_" not in (part or {})]:
            _may_be_dropped(group, str(name), given)
            del whole[group][name]
    if unset := next(_unset(OmegaConf.to_container(whole)), None):
        raise ConfigError(missing(unset))
    values = OmegaConf.to_container(whole, resolve=True)
    assert isinstance(values, dict)
    return {str(key): value for key, value in values.items()}


def check_parts(config: Mapping[str, Any], choices: Mapping[str, Any]) -> None:
    """Hold every part's arguments against the signature of its class.

    Args:
        config: the values of `plain`.
        choices: the chosen file of each group, as Hydra tells them.

    Raises:
        ConfigError: a class is not there, or an argument is unknown, missing or of the wrong type.
    """
    for place, part in parts(config, choices):
        arguments = dict(part)
        target = arguments.pop("_target_", None)
        if target is None:
            raise ConfigError(
                f"{place}: _target_ is missing; name the class, such as clawloop.diagnosis.attribute.Rules."
            )
        try:
            kind = resolve_name(str(target))
        except (ImportError, AttributeError, ValueError) as error:
            raise ConfigError(f"{place}: _target_ {target} cannot be imported ({error}); correct its name.") from error
        _check(place, kind, arguments)


def parts(config: Mapping[str, Any], choices: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every part with the file that it comes from."""
    for group in ONE_PART:
        yield f"conf/{group}/{choices.get(group, '?')}.yaml", config[group]
    for group in SEVERAL_PARTS:
        for name, part in config[group].items():
            yield f"conf/{group}/{name}.yaml", part


def _unset(value: object, key: str = "") -> Iterator[str]:
    """The keys that wait for a value, in the order of the spine."""
    if value == "???":
        yield key
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _unset(inner, f"{key}.{name}" if key else str(name))


def _may_be_dropped(group: str, name: str, given: tuple[str, ...]) -> None:
    if name not in options(group):
        raise ConfigError(f"{group}.{name}: there is no conf/{group}/{name}.yaml; {did_you_mean(name, options(group))}")
    if any(override.lstrip("+~").startswith(f"{group}.{name}.") for override in given):
        raise ConfigError(
            f"{group}.{name} is set but not chosen: add {name} to {group}=[...], or leave the setting out."
        )


def _check(place: str, kind: type, arguments: Mapping[str, Any]) -> None:
    known = {name: p for name, p in inspect.signature(kind).parameters.items() if p.kind is not p.VAR_KEYWORD}
    constructor = inspect.getattr_static(kind, "__init__")
    hints = get_type_hints(constructor)
    for name, value in arguments.items():
        if name not in known or name in HANDED:
            cure = did_you_mean(name, known.keys() - HANDED) if known.keys() - HANDED else "leave it out."
            raise ConfigError(f"{place}: {kind.__name__} has no parameter {name!r}; {cure}")
        if name in hints and (reason := _misfit(value, hints[name])):
            raise ConfigError(f"{place}: {name}={value!r} does not suit {kind.__name__}: {reason}.")
    for name, parameter in known.items():
        if parameter.default is parameter.empty and name not in arguments and name not in HANDED:
            raise ConfigError(f"{place}: {kind.__name__} needs a parameter {name!r}; add the line `{name}: ...`.")


def _misfit(value: object, hint: Any) -> str:
    """Why a value does not have a type, or nothing. What is no plain type is left to the part.

    >>> _misfit(1, float), _misfit("1", int)
    ('', 'expected `int`, got `str`')
    """
    try:
        msgspec.convert(value, hint)
    except msgspec.ValidationError as error:
        reason = str(error)
        return reason[0].lower() + reason[1:]
    except TypeError:
        return ""
    return ""
