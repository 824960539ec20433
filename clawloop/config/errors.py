"""What is said when a config is wrong: one sentence that names the place and the cure."""

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf.errors import (
    ConfigAttributeError,
    ConfigKeyError,
    InterpolationKeyError,
    MissingMandatoryValue,
    OmegaConfBaseException,
    ValidationError,
)
from yaml import YAMLError
from yaml.error import MarkedYAMLError

from clawloop.config.folders import groups, options

_FEW = 12
_TYPES = {"Integer": "an integer", "Float": "a number", "Boolean": "true or false"}


class ConfigError(ValueError):
    """The config cannot be run; the message is one sentence."""


class AskError(ValueError):
    """What a person asked for cannot be done; the message is one sentence that says what to do."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown name.

    >>> did_you_mean("lrr", ["lr", "epochs"])
    "did you mean 'lr'?"
    >>> did_you_mean("x", ["lr", "epochs"])
    'use one of epochs, lr.'
    """
    names = sorted(known)
    close = get_close_matches(name, names, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"use one of {', '.join(names)}." if len(names) <= _FEW else "`--cfg job` shows what there is."


def sentence(error: BaseException) -> str | None:
    """One sentence for what Hydra, OmegaConf, YAML or a check of ours raised about a config.

    None where the error is about something else.
    """
    for cause in _causes(error):
        match cause:
            case ConfigError():
                return str(cause)
            case MissingConfigException() if cause.missing_cfg_file:
                return _no_option(cause.missing_cfg_file, cause.options)
            case MarkedYAMLError():
                return _syntax(cause)
            case OverrideParseException():
                return f"{cause.override}: this override cannot be read; write key=value, and quote = , and brackets."
            case ConfigKeyError() | ConfigAttributeError() if cause.full_key:
                return _no_key(cause, error)
            case InterpolationKeyError() if found := re.search(r"'(.+)' not found", str(cause)):
                place = getattr(error, "full_key", None)
                return f"{place + ': ' if place else ''}${{{found.group(1)}}} points at no key; name one that exists."
            case MissingMandatoryValue():
                return missing(str(cause.full_key))
            case ValidationError() if cause.full_key:
                return _wrong_value(cause, error)
    if found := re.search(r"Could not override '(.+)'\. No match in the defaults list", str(error)):
        group = found.group(1)
        return f"{group}: no such group is among the defaults of conf/config.yaml; write +{group}=... to add it."
    if isinstance(error, HydraException | OmegaConfBaseException | YAMLError):
        return _flat(str(error))
    return None


def missing(key: str) -> str:
    """The sentence about a key without a value."""
    return f"{key} has no value: choose an experiment (+experiment=main) or give it one ({key}=...)."


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what it came from, innermost first."""
    inner = error.__cause__ or error.__context__  # OmegaConf hides the context, and with it what a resolver raised
    if inner is not None:
        yield from _causes(inner)
    yield error


def _flat(text: str | None) -> str:
    """A message of several lines as one."""
    return "; ".join(line.strip() for line in (text or "").splitlines() if line.strip())


def _place(error: BaseException) -> str:
    """Where a message says that it comes from: a file of conf/, or nothing."""
    found = re.search(r"In '([^']+)'", str(error))
    return f"conf/{found.group(1)}.yaml: " if found else ""


def _no_option(config: str, known: Iterable[str] | None) -> str:
    group, _, name = config.rpartition("/")
    place = f"{group}={name}: there is no such {group}" if group else f"{name}: there is no such config"
    return f"{place}; {did_you_mean(name, known or options(group))}"


def _syntax(error: MarkedYAMLError) -> str:
    mark = error.problem_mark
    place = f"{mark.name}, line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    return f"{place}the YAML cannot be read ({_flat(error.problem) or 'syntax error'}); mend that line."


def _no_key(error: OmegaConfBaseException, outer: BaseException) -> str:
    parent, key = error.parent_node, str(error.full_key or error.key)
    known = [str(name) for name in parent] if hasattr(parent, "keys") else []
    if known and "." not in key:
        known += groups()
    cure = did_you_mean(str(error.key), known) if known else "leave it out."
    return f"{_place(outer)}there is no key {key!r}; {cure}"


def _wrong_value(error: ValidationError, outer: BaseException) -> str:
    found = re.search(r"Value '(.*)' of type '\w+' could not be converted to (\w+)", error.msg or "", re.DOTALL)
    if not found:
        return f"{_place(outer)}{error.full_key}: {_flat(error.msg)}."
    value, kind = found.groups()
    return f"{_place(outer)}{error.full_key}={value}: this must be {_TYPES.get(kind, kind)}."
