"""Seeing what a domain's tools do: they are called in filled worlds, in a box, and every SQL that they run is read.

Parameters are drawn as a task's are. The SQL that ran is read as that in code is (`skills.read.touched`), so that what
was seen and what was read mean the same.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from clawloop.protocols import Sandboxes
from clawloop.synthesis.author.library.grounded import world_program
from clawloop.synthesis.skills.completion import Claim
from clawloop.synthesis.skills.domain import Sources
from clawloop.synthesis.skills.read import Tool, touched
from clawloop.synthesis.skills.table import source
from clawloop.types import Limits, Workspace

TIMEOUT_S = 60.0
_ENOUGH = 20  # calls after which what was never seen is taken not to be
_COMMAND = ("python3", "-s", "-B", "observe.py")
_ENVIRONMENT = {"PYTHONHASHSEED": "0", "TZ": "UTC"}
_SIZE = 8 << 20


@dataclass(frozen=True, slots=True)
class Seen:
    """What calls of a tool did. `calls` counts those that went through; the SQL of refused ones is read too.

    `parts` are the fields that it gave (gives), and the tables that it read and wrote. `rows` are the keys under which
    it returned rows. `trouble` says, in a sentence, why it could not be called or seen; then the rest is empty.
    """

    calls: int = 0
    parts: Mapping[str, frozenset[str]] | None = None
    rows: frozenset[str] = frozenset()
    trouble: str = ""


def observe(sources: Sources, tools: Mapping[str, Tool], sandboxes: Sandboxes) -> dict[str, Seen]:
    """What some tools of a domain do, by name.

    Raises:
        InfrastructureError: the box broke.
    """
    params = {
        name: [param for param in tool.params if source(sources.tables, sources.values, param) is None]
        for name, tool in tools.items()
    }
    without = {
        name: Seen(trouble=f"{name} cannot be called: words.yaml has no values for {lost[0]}, and no table has it.")
        for name, lost in params.items()
        if lost
    }
    called = {name: list(tool.params) for name, tool in tools.items() if name not in without}
    program = f"TOOLS = {called!r}\n{_text('observe.py.txt')}"
    workspace = Workspace({"domain.py": world_program(sources).encode(), "observe.py": program.encode()})
    with sandboxes.open(workspace, Limits(wall_s=TIMEOUT_S, cpu_s=int(TIMEOUT_S))) as box:
        result = box.run(_COMMAND, timeout_s=TIMEOUT_S, environment=_ENVIRONMENT)
        if result.exit_code != 0:
            last = (result.stopped or result.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2])[:300]
            return without | {name: Seen(trouble=f"{name} cannot be called: {last}") for name in called}
        found = json.loads(box.read("observed.json", _SIZE))
    return without | {name: _seen(tools[name], found[name]) for name in called}


def contradiction(tool: Tool, claim: Claim, seen: Seen) -> str:
    """What was seen and a claim does not say, or says and was never seen in many calls; empty where they agree."""
    if seen.trouble or seen.parts is None or not seen.calls:
        return seen.trouble or f"No call of {tool.name} went through in the worlds of world.py, so nothing shows it."
    for part, names in claim.parts.items():
        observed = seen.parts[part]
        if more := sorted(observed - set(names)):
            return f"{part} of {tool.name} lacks {more[0]}, which calls of it showed."
        if seen.calls >= _ENOUGH and (never := [name for name in names if name not in observed]):
            return f"{part} of {tool.name} has {never[0]}, which none of {seen.calls} calls that went through showed."
    if "gives" in claim.parts and seen.rows != frozenset([claim.rows] if claim.rows else []):
        keys = ", ".join(sorted(seen.rows)) or "no key"
        return f"rows of {tool.name} is {claim.rows or 'left out'}, but it returned rows under {keys}."
    return ""


def _seen(tool: Tool, found: Mapping[str, object]) -> Seen:
    if found["error"]:
        return Seen(trouble=f"{tool.name} broke when it was called: {str(found['error'])[:300]}")
    strings = {key: frozenset(value) for key, value in found.items() if isinstance(value, list)}
    reads: set[str] = set(tool.reads)
    writes = {*tool.writes, *strings["changed"]}
    for text in strings["sql"]:
        try:
            read, written = touched(text)
        except ValueError as error:
            return Seen(trouble=f"{tool.name} ran SQL that cannot be read ({error}).")
        reads |= read
        writes |= written
    fields = strings["fields"] | (strings["lists"] - strings["rows"])
    parts = {"gives": frozenset({*fields, *tool.gives}) - set(tool.params), "reads": reads, "writes": writes}
    calls = found["calls"]
    assert isinstance(calls, int)
    return Seen(calls, {part: frozenset(names) for part, names in parts.items()}, strings["rows"])


@cache
def _text(name: str) -> str:
    return files("clawloop.synthesis.analysis").joinpath(name).read_text()
