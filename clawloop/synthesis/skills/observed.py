"""What was observed of an MCP server, as a domain's folder keeps it, and what programs in a box are told of it."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from clawloop.synthesis.skills.read import Tool
from clawloop.synthesis.skills.server import Server, Use, read_server, tables_of
from clawloop.synthesis.skills.table import Table

NAME = "observed.json"
PARTS = ("server.yaml", "world.py", "words.yaml")
PROGRAMS = ("client.py.txt", "documents.py.txt", "stored.py.txt", "draw.py.txt", "served.py.txt")


@dataclass(frozen=True, slots=True)
class Observed:
    """What is known of a server's tools. `of` is a digest of what it was found out with, `listing` one of the tools.

    `left_out` says of each tool that is none of the domain's why it is not. `rereads` is whether the running server was
    proven to see a file that is put back under it.
    """

    of: str
    listing: str
    schema: tuple[str, ...]
    rereads: bool
    volatile: dict[str, tuple[str, ...]]
    tools: tuple[Tool, ...]
    left_out: dict[str, str]


def load_observed(folder: Path) -> tuple[Server, Observed, dict[str, Table]]:
    """The server of a folder, what was observed of it, and its tables.

    Raises:
        ValueError: a file is missing or wrong, or the observation is of another server.yaml or world.py.
    """
    server, of = read_folder(folder)
    path = folder / NAME
    cure = f"run `clawloop domains observe {folder} 'sandbox.mounts={{{server.mount}: FOLDER}}'`."
    if not path.is_file():
        raise ValueError(f"{folder}: its server was not observed yet; {cure}")
    try:
        observed = msgspec.json.decode(path.read_bytes(), type=Observed)
    except msgspec.DecodeError as error:
        raise ValueError(f"{path} is no observation ({error}); {cure}") from error
    if observed.of != of:
        raise ValueError(f"{path} is of another server.yaml or world.py; {cure}")
    return server, observed, tables_of(server, observed.schema, str(folder / "server.yaml"))


def read_folder(folder: Path) -> tuple[Server, str]:
    """The server of a folder, and a digest of what an observation of it depends on.

    Raises:
        ValueError: a file is missing or wrong.
    """
    if missing := [part for part in PARTS if not (folder / part).is_file()]:
        raise ValueError(f"{folder} is no domain of an MCP server: it lacks {missing[0]}; it holds {', '.join(PARTS)}.")
    text, world = ((folder / part).read_text(encoding="utf-8") for part in PARTS[:2])
    return read_server(text, str(folder / "server.yaml")), hashlib.sha256(f"{text}\0{world}".encode()).hexdigest()[:16]


def spec(server: Server, observed: Observed | None = None, tables: Mapping[str, Table] | None = None) -> dict[str, Any]:
    """What the programs in a box are told of a server: `SERVER` in client.py.txt and what stands below it."""
    tools = {}
    for tool in observed.tools if observed else ():
        use = server.uses.get(tool.name, Use(tool.name))
        tools[tool.name] = {
            "tool": use.tool,
            "with": dict(use.fixed),
            "names": dict(use.names),
            "rows": tool.rows,
            "writes": list(tool.writes),
            "params": dict(tool.params),
            "about": tool.about,
        }
    volatile = {name: set((table or {}).get("volatile", ())) for name, table in server.tables.items()}
    for name, columns in observed.volatile.items() if observed else ():
        volatile.setdefault(name, set()).update(columns)
    shaped = shape(tables or {})
    for name in shaped:
        told = server.tables.get(name) or {}
        shaped[name] |= {"at": told.get("at", ""), "where": told.get("where", {})} if server.form != "sqlite" else {}
    return {
        "mount": server.mount,
        "install": list(server.install),
        "command": list(server.command),
        "environment": dict(server.environment),
        "timeout_s": server.timeout_s,
        "file": server.file,
        "form": server.form,
        "empty": server.empty,
        "schema": list(observed.schema) if observed else [],
        "listing": observed.listing if observed else "",
        "rereads": observed.rereads if observed else True,
        "volatile": {name: sorted(columns) for name, columns in sorted(volatile.items()) if columns},
        "tables": shaped,
        "tools": tools,
    }


@cache
def text(name: str) -> str:
    """A program's text beside this module."""
    return files("clawloop.synthesis.skills").joinpath(name).read_text()


def shape(tables: Mapping[str, Table]) -> dict[str, dict[str, Any]]:
    """Tables as programs are told of them."""
    return {
        name: {"columns": table.columns, "key": table.key, "stored": table.stored or table.columns}
        for name, table in tables.items()
    }
