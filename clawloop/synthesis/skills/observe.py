"""What the tools of an MCP server do, found out by calling them: the server lists them, but has no code to be read.

A program in a box with the server asks it for its tools, calls each on snapshots of filled worlds, and compares: a
table whose records differ afterwards is written; one whose emptying changes the outcome is read; the fields of results
are given; columns that differ between two calls at two moments are volatile. The result is kept as `observed.json` in
the domain's folder, and holds for one server.yaml and one world.py.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from clawloop.protocols import Sandboxes
from clawloop.synthesis.skills.observed import NAME, PROGRAMS, Observed, read_folder, shape, spec, text
from clawloop.synthesis.skills.read import Tool
from clawloop.synthesis.skills.server import Server, Use, tables_of
from clawloop.synthesis.skills.table import source
from clawloop.types import Limits, Workspace

_KINDS = {"string": "str", "integer": "int", "number": "float"}
_LIMITS = Limits(wall_s=600.0, cpu_s=600, output=4 << 20)
_COMMAND = ("python3", "-s", "-B", "observe.py")


class ObservationError(Exception):
    """A server could not be observed; one sentence says why."""


def observe(folder: Path, sandboxes: Sandboxes) -> Observed:
    """Run the server of a folder in boxes, find out what its tools do, and keep it in the folder.

    Raises:
        ValueError: a file is missing or wrong.
        ObservationError: the server broke, or none of its tools can be used.
        InfrastructureError: a box broke.
    """
    server, of = read_folder(folder)
    at = str(folder / "server.yaml")
    world = (folder / "world.py").read_text(encoding="utf-8")
    words = yaml.safe_load((folder / "words.yaml").read_text(encoding="utf-8"))
    values = words.get("values", {}) if isinstance(words, dict) else {}
    first = _run(spec(server), {"world": "", "sources": {}, "tables": {}}, "list", sandboxes)
    tables = tables_of(server, first["schema"], at)
    uses, left_out = _usable(server, {tool["name"]: tool for tool in first["listing"]}, at)
    sources: dict[str, object] = {}
    for name, (_, params) in list(uses.items()):
        found = {param: source(tables, values, param) for param in params}
        if lost := [param for param, place in found.items() if place is None]:
            left_out[name] = f"no column and no value of words.yaml is named {lost[0]}"
            del uses[name]
        sources |= {p: ("values", values[p]) if place == ("values",) else place for p, place in found.items() if place}
    if not uses:
        said = "; ".join(f"{name}: {why}" for name, why in left_out.items()) or "it lists none"
        raise ObservationError(f"{folder}: the server has no tool that can be used ({said}).")
    tools = {
        name: Tool(name, _about(tool), params, (), server.uses.get(name, Use(name)).rows, (), (), (), ())
        for name, (tool, params) in uses.items()
    }
    bare = Observed(of, first["digest"], tuple(first["schema"]), True, {}, tuple(tools.values()), {})
    told = _run(
        spec(server, bare, tables), {"world": world, "sources": sources, "tables": shape(tables)}, "observe", sandboxes
    )
    seen = []
    for name, tool in tools.items():
        one = told["tools"][name]
        if not one["calls"]:
            left_out[name] = "no call of it went well; it said: " + "; ".join(one["refusals"])
            continue
        gives, reads, writes, refusals = (tuple(one[part]) for part in ("gives", "reads", "writes", "refusals"))
        seen.append(Tool(name, tool.about, tool.params, gives, one["rows"], reads, writes, refusals, ()))
    volatile = {name: tuple(columns) for name, columns in told["volatile"].items()}
    result = Observed(of, first["digest"], tuple(first["schema"]), told["rereads"], volatile, tuple(seen), left_out)
    (folder / NAME).write_text(json.dumps(asdict(result), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return result


def typed(schema: Mapping[str, Any], use: Use) -> tuple[dict[str, str], str]:
    """The parameters of a tool's JSON schema in the domain's names, and what keeps the tool out, or nothing.

    >>> typed({"properties": {"a": {"type": "integer"}, "b": {"type": "array"}}, "required": ["a"]}, Use("t"))
    ({'a': 'int'}, '')
    """
    properties, fixed, names = schema.get("properties", {}), dict(use.fixed), dict(use.names)
    if unknown := sorted({*use.takes, *fixed} - set(properties)):
        return {}, f"it has no parameter {unknown[0]!r}"
    params = {}
    for name, one in properties.items():
        if name in fixed or not (name in schema.get("required", ()) or name in use.takes):
            continue
        kinds = {part.get("type") for part in one.get("anyOf", [one])} - {"null"}
        kind = _KINDS.get(str(kinds.pop())) if len(kinds) == 1 else None
        ours = names.get(name, name)
        if kind is None or not ours.isidentifier():
            return {}, f"its parameter {name!r} is no text and no number; give it a value under `with`"
        params[ours] = kind
    return params, ""


def _usable(
    server: Server, listed: Mapping[str, Mapping[str, Any]], at: str
) -> tuple[dict[str, tuple[Mapping[str, Any], dict[str, str]]], dict[str, str]]:
    """The domain's tools with their parameters, and what is left out."""
    if unknown := sorted({use.tool for use in server.uses.values()} - set(listed)):
        raise ObservationError(
            f"{at}: the server lists no tool {unknown[0]!r}; it lists {', '.join(listed) or 'none'}."
        )
    used = {use.tool for use in server.uses.values()}
    wanted = {**{name: Use(name) for name in listed if name not in used}, **server.uses}
    uses, left_out = {}, {}
    for name, use in wanted.items():
        params, why = typed(listed[use.tool]["inputSchema"], use)
        if why or not name.isidentifier():
            left_out[name] = why or "its name is no plain word; give it one in server.yaml"
        else:
            uses[name] = (listed[use.tool], params)
    return uses, left_out


def _about(tool: Mapping[str, Any]) -> str:
    return " ".join(str(tool.get("description") or "").strip().split("\n")[0].split())[:300]


def _run(server: dict[str, Any], given: Mapping[str, Any], what: str, sandboxes: Sandboxes) -> Any:
    program = f"SERVER = {server!r}\nSPEC = {dict(given)!r}\n" + "".join(map(text, (*PROGRAMS, "observe.py.txt")))
    with sandboxes.open(Workspace({"observe.py": program.encode()}), _LIMITS) as box:
        result = box.run([*_COMMAND, what], timeout_s=_LIMITS.wall_s)
    if result.exit_code == 0:
        try:
            return json.loads(result.stdout)
        except ValueError as error:
            raise ObservationError(f"the observation printed no JSON: {error}.") from error
    lines = [line for line in result.stderr.decode("utf-8", "backslashreplace").splitlines() if line.strip()]
    why = f"it was stopped ({result.stopped})" if result.stopped else (lines or ["it said nothing."])[-1]
    raise ObservationError(f"the server could not be observed: {why[:500]}")
