"""How people speak of a domain: words.yaml, read strictly, so that no phrase leaves out what a tool must be handed."""

from collections.abc import Mapping
from dataclasses import dataclass
from string import Formatter
from typing import Any

import yaml

from clawloop.synthesis.skills.read import Tool

_KEYS = ("about", "held", "decisions", "values", "lookups", "goals", "remedies")
_ORDERS = ("lowest", "highest")


@dataclass(frozen=True, slots=True)
class Lookup:
    """How people speak of what a lookup finds: a phrase for each field, and which of several rows is meant.

    `order` is lowest or highest `by`; of equals, the one whose spoken field comes first in ascending order. `by` is
    empty where the lookup finds one thing.
    """

    phrases: Mapping[str, str]
    by: str = ""
    order: str = "lowest"


def read_words(text: str, tools: Mapping[str, Tool], at: str) -> dict[str, Any]:
    """The parts of a `Domain` that words.yaml has, without the values.

    Raises:
        ValueError: something is missing, unknown, or does not suit the tools; the sentence names it.
    """
    words = _read(text, at)
    remedies = words.get("remedies", {})
    for name in (*words["lookups"], *words["goals"], *remedies):
        if name not in tools:
            raise ValueError(f"{at} speaks of a tool {name!r} that tools.py does not have.")
        if tools[name].writes and name in words["lookups"]:
            raise ValueError(f"{at}: {name} cannot be a lookup, because it changes records.")
        if not tools[name].writes and (name in words["goals"] or name in remedies):
            raise ValueError(f"{at}: {name} cannot be a goal or a remedy, because it changes nothing.")
    goals = {name: (goal,) if isinstance(goal, str) else tuple(goal) for name, goal in words["goals"].items()}
    lookups = {name: _lookup(value, tools[name], at) for name, value in words["lookups"].items()}
    for name, phrases in (*goals.items(), *((name, lookup.phrases.values()) for name, lookup in lookups.items())):
        for phrase in phrases:
            _check_gaps(phrase, tools[name], at)
    return {
        "about": str(words["about"]),
        "held": bool(words.get("held", False)),
        "decisions": tuple((str(name), str(rule)) for name, rule in words.get("decisions", {}).items()),
        "remedies": {name: str(rule) for name, rule in remedies.items()},
        "lookups": lookups,
        "goals": goals,
    }


def read_values(text: str, at: str) -> dict[str, Any]:
    """The values that no record has, by parameter.

    Raises:
        ValueError: words.yaml cannot be read, or they are of another form; the sentence names it.
    """
    return {name: _values(name, value, at) for name, value in _read(text, at).get("values", {}).items()}


def _read(text: str, at: str) -> dict[str, Any]:
    words = yaml.safe_load(text)
    if not isinstance(words, dict) or not {"about", "goals", "lookups"} <= set(words) <= set(_KEYS):
        raise ValueError(f"{at} must have the keys about, lookups and goals, and may have {', '.join(_KEYS)}.")
    return words


def _lookup(value: Mapping[str, str], tool: Tool, at: str) -> Lookup:
    phrases = {field: phrase for field, phrase in value.items() if field not in _ORDERS}
    orders = [order for order in _ORDERS if order in value]
    if len(orders) != bool(tool.rows):
        cure = "say which of its rows is meant, lowest or highest" if tool.rows else "leave out lowest and highest"
        raise ValueError(f"{at}: {cure}, for {tool.name}.")
    for field in (*phrases, *(value[order] for order in orders)):
        if field not in tool.gives:
            raise ValueError(f"{at}: {tool.name} gives no {field!r}; it gives {', '.join(tool.gives)}.")
    return Lookup(phrases, value[orders[0]], orders[0]) if orders else Lookup(phrases)


def _check_gaps(phrase: str, tool: Tool, at: str) -> None:
    gaps = {gap for _, gap, _, _ in Formatter().parse(phrase) if gap is not None}
    if gaps != set(tool.params):
        wanted = ", ".join("{" + name + "}" for name in tool.params)
        raise ValueError(f"{at}: the phrase {phrase!r} of {tool.name} must have the gaps {wanted}, and no others.")


def _values(name: str, value: Any, at: str) -> list[Any]:
    numbers = isinstance(value, list) and bool(value) and all(isinstance(one, int) for one in value)
    texts = isinstance(value, list) and bool(value) and all(isinstance(one, str) for one in value)
    if not texts and not (numbers and len(value) == 2 and value[0] < value[1]):
        raise ValueError(
            f"{at}: the values of {name} must be texts to choose from, or the ends of a range of integers."
        )
    return list(value)
