"""What the code of a domain's tools does not say, said by a model or a person (paper, 4.1): graph.yaml, read strictly.

sweep:                  # a tool of which tools.py leaves something open
  gives: [bee, n]       # where it is open what the tool returns: all its fields, those that it was handed left out
  rows: bees            # the key under which it returns several rows; left out where it returns one thing
  reads: [bees]         # where SQL is open: all the tables that the tool and its helpers read,
  writes: []            # and all that they change
  by: model             # or person
  reason: one sentence
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import yaml

from clawloop.synthesis.skills.read import Tool

NAME = "graph.yaml"
WRITERS = ("model", "person")


@dataclass(frozen=True, slots=True)
class Claim:
    """What is said of one tool: whole lists of the parts that its code leaves open, by whom and why."""

    parts: Mapping[str, tuple[str, ...]]
    rows: str
    by: str
    reason: str


def read_claims(text: str, tools: Mapping[str, Tool], tables: Iterable[str], at: str) -> dict[str, Claim]:
    """The claims of a graph.yaml.

    Raises:
        ValueError: it is not of the form above, or does not suit tools and tables; the sentence names the place.
    """
    value = read_yaml(text, at)
    open_ = {name: tool for name, tool in tools.items() if tool.unknown}
    for name in value:
        if name not in open_:
            has = f"the code leaves open only {', '.join(open_)}" if open_ else "the code leaves nothing open"
            raise ValueError(f"{at} speaks of {name!r:.60}, but {has}; leave it out.")
    return {name: _claim(one, open_[name], tuple(tables), at) for name, one in value.items()}


def completed(tools: Mapping[str, Tool], claims: Mapping[str, Claim]) -> dict[str, Tool]:
    """The tools with what is claimed of them in the place of what their code leaves open."""
    return {name: _completed(tool, claims[name]) if name in claims else tool for name, tool in tools.items()}


def dump(claims: Mapping[str, Claim]) -> str:
    """The claims as the text of a graph.yaml."""
    told = {
        name: {part: list(names) for part, names in claim.parts.items()}
        | ({"rows": claim.rows} if claim.rows else {})
        | {"by": claim.by, "reason": claim.reason}
        for name, claim in claims.items()
    }
    return yaml.safe_dump(told, sort_keys=False, allow_unicode=True)


def read_yaml(text: str, at: str) -> dict[str, Any]:
    """A mapping with names as keys.

    Raises:
        ValueError: the text is something else; the sentence names the line where that is known.
    """
    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark else ""
        raise ValueError(f"{at}{place}: the YAML cannot be read; mend it.") from error
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise ValueError(f"{at} must be a mapping whose keys are names.")
    return value


def written_by(value: Mapping[str, Any], at: str) -> tuple[str, str]:
    """Who says something, and why.

    Raises:
        ValueError: one of them is not told.
    """
    reason = value.get("reason")
    if value.get("by") not in WRITERS:
        raise ValueError(f"{at}: by must be {' or '.join(WRITERS)}.")
    if not isinstance(reason, str) or not reason.strip():
        raise ValueError(f"{at}: reason must be a sentence.")
    return value["by"], " ".join(reason.split())


def names_in(value: Any, at: str) -> tuple[str, ...]:
    """A list of names, each once.

    Raises:
        ValueError: it is something else.
    """
    if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
        raise ValueError(f"{at} must be a list of names, such as [a, b], or [] for none.")
    if len(set(value)) < len(value):
        raise ValueError(f"{at} names something twice.")
    return tuple(value)


def _claim(value: Any, tool: Tool, tables: tuple[str, ...], at: str) -> Claim:
    at = f"{at}: {tool.name}"
    wanted = [*tool.unknown, "by", "reason"]
    allowed = [*wanted, "rows"] if "gives" in tool.unknown else wanted
    if not isinstance(value, dict) or not set(wanted) <= set(value) <= set(allowed):
        raise ValueError(f"{at} must have the keys {', '.join(wanted)}{' and may have rows' * (allowed != wanted)}.")
    parts = {part: names_in(value[part], f"{at}: {part}") for part in tool.unknown}
    for part, names in parts.items():
        if missing := sorted(set(getattr(tool, part)) - set(names)):
            raise ValueError(f"{at}: {part} lacks {missing[0]}, which the code names.")
        known = tables if part != "gives" else names
        if wrong := [name for name in names if name not in known]:
            raise ValueError(f"{at}: schema.sql has no table {wrong[0]!r:.60}; it has {', '.join(tables)}.")
    if handed := [name for name in parts.get("gives", ()) if name in tool.params]:
        raise ValueError(f"{at}: gives must leave out {handed[0]}, which the tool is handed.")
    rows = value.get("rows", tool.rows)
    if not isinstance(rows, str) or (tool.rows and rows != tool.rows):
        raise ValueError(f"{at}: rows must be the one key under which the tool returns its rows.")
    by, reason = written_by(value, at)
    return Claim(parts, rows, by, reason)


def _completed(tool: Tool, claim: Claim) -> Tool:
    parts: dict[str, Any] = {part: tuple(sorted(names)) for part, names in claim.parts.items() if part != "gives"}
    gives = claim.parts.get("gives", tool.gives)
    return replace(tool, **parts, gives=gives, rows=claim.rows, unknown={})
