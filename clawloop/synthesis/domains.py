"""The domains of the capability route: vocabularies, many of them long-tail, kept in domains.json.

The surface varies and the capability stays (paper, 4.1). Each entry names an entity, its files, three columns of words
with their values, three of numbers with their ranges, and words for folders.
"""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any


def training_domains() -> tuple[str, ...]:
    """The domains that synthesis may draw."""
    return tuple(name for name, entry in _domains().items() if not entry["held"])


def held_domains() -> tuple[str, ...]:
    """The domains kept apart for the probe.

    >>> set(held_domains()) & set(training_domains())
    set()
    """
    return tuple(name for name, entry in _domains().items() if entry["held"])


def vocabulary(name: str) -> Mapping[str, Any]:
    """One domain's words.

    Raises:
        ValueError: there is no such domain.

    >>> vocabulary("beekeeping")["entity"]
    'hive'
    """
    if name not in _domains():
        raise ValueError(f"there is no domain {name!r}; the domains are {', '.join(_domains())}.")
    return _domains()[name]


@cache
def _domains() -> dict[str, dict[str, Any]]:
    text = files("clawloop.synthesis").joinpath("domains.json").read_text(encoding="utf-8")
    return {entry["name"]: entry for entry in json.loads(text)}
