"""The domains that the library speaks of: each with its own words, and some of them kept apart for the probe."""

import json
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def _domains() -> dict[str, dict[str, Any]]:
    text = files("clawloop.synthesis").joinpath("lexicon.json").read_text()
    return {domain["name"]: domain for domain in json.loads(text)}


def training_domains() -> tuple[str, ...]:
    """The domains that synthesis draws from."""
    return tuple(name for name, domain in _domains().items() if not domain["held"])


def held_domains() -> tuple[str, ...]:
    """The domains kept apart for the probe."""
    return tuple(name for name, domain in _domains().items() if domain["held"])


def vocabulary(name: str) -> dict[str, Any]:
    """The words of a domain: its entity, and its columns with their values or ranges.

    Raises:
        ValueError: there is no such domain.
    """
    if name not in _domains():
        raise ValueError(f"there is no domain {name!r}; there are {', '.join(_domains())}.")
    return {key: value for key, value in _domains()[name].items() if key != "held"}
