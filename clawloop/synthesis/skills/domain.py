"""An executable domain (paper, 4.1): tools over a database, records to fill it, and how people speak of both.

A domain is a folder of four files, named after the domain:

    schema.sql   the tables; each has a business key: a PRIMARY KEY that is no row number, or a UNIQUE constraint
    tools.py     plain functions `(db: sqlite3.Connection, a: str, n: int, ...) -> dict`, which raise ValueError
    world.py     fill(db, rng): plausible records, from nothing but `rng`
    words.yaml   phrases for goals and for what lookups find, and the values that no record has

Or its tools are those of an MCP server: server.yaml stands in place of the first two, and observed.json beside it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from clawloop.synthesis.skills.observed import load_observed, spec
from clawloop.synthesis.skills.read import Tool, read_tools
from clawloop.synthesis.skills.table import Table, read_tables
from clawloop.synthesis.skills.words import Lookup, read_words

_PARTS = ("schema.sql", "tools.py", "world.py", "words.yaml")


@dataclass(frozen=True, slots=True)
class Domain:
    """A domain as its files have it, its tools as their code has them, and its tables as SQLite reads the schema.

    `remedies` are the changes by which an obstacle may be removed, each with the rule that the contract declares.
    `server` is what programs in a box are told of an MCP server, empty where the tools are functions in `code`.
    """

    name: str
    about: str
    held: bool
    schema: str
    code: str
    world: str
    tools: Mapping[str, Tool]
    tables: Mapping[str, Table]
    lookups: Mapping[str, Lookup]
    goals: Mapping[str, tuple[str, ...]]
    remedies: Mapping[str, str]
    values: Mapping[str, Any]
    decisions: tuple[tuple[str, str], ...]
    server: Mapping[str, Any] = field(default_factory=dict)


def shipped() -> tuple[str, ...]:
    """The names of the domains that come with the project."""
    return tuple(sorted(folder.name for folder in _root().iterdir() if (folder / "tools.py").is_file()))


@cache
def load(folder: str) -> Domain:
    """The domain of a folder, or of a shipped domain's name.

    Raises:
        ValueError: a file is missing or says something that cannot be; the sentence names it.
    """
    path = _root() / folder if folder in shipped() else Path(folder)
    if (path / "server.yaml").is_file():
        return _served(path)
    if missing := [part for part in _PARTS if not (path / part).is_file()]:
        raise ValueError(
            f"{path} is no domain: it lacks {missing[0]}; shipped are {', '.join(shipped())}, and a folder of your own "
            f"holds {', '.join(_PARTS)}."
        )
    schema, code, world, words = ((path / part).read_text(encoding="utf-8") for part in _PARTS)
    tools = {tool.name: tool for tool in read_tools(code, str(path / "tools.py"))}
    tables = {table.name: table for table in read_tables([schema], str(path / "schema.sql"))}
    if unknown := sorted({name for tool in tools.values() for name in (*tool.reads, *tool.writes)} - set(tables)):
        raise ValueError(f"{path / 'tools.py'} speaks of a table {unknown[0]!r} that schema.sql does not have.")
    spoken = read_words(words, tools, str(path / "words.yaml"))
    return Domain(path.name, schema=schema, code=code, world=world, tools=tools, tables=tables, **spoken)


def _served(path: Path) -> Domain:
    server, observed, tables = load_observed(path)
    world, words = ((path / part).read_text(encoding="utf-8") for part in ("world.py", "words.yaml"))
    tools = {tool.name: tool for tool in observed.tools}
    spoken = read_words(words, tools, str(path / "words.yaml"))
    told = spec(server, observed, tables)
    return Domain(path.name, schema="", code="", world=world, tools=tools, tables=tables, server=told, **spoken)


def named(folders: Sequence[str]) -> dict[str, str]:
    """Every domain that can be drawn: its name, and what `load` reads it from.

    Raises:
        ValueError: two folders have one name, or the name of a shipped domain.
    """
    found = {name: name for name in shipped()}
    for folder in folders:
        name = Path(place(folder)).name
        if name in found:
            raise ValueError(f"routine.domain.folders: {folder} has the name of another domain, {name}; rename it.")
        found[name] = place(folder)
    return found


def place(folder: str) -> str:
    """The path of a folder; the bare name of a domain that comes with the project is that domain's.

    Domains of MCP servers come with the project too, but are not among `shipped`: they need their server's package.
    """
    own = _root() / folder
    return str(own if re.fullmatch(r"\w+", folder) and own.is_dir() else Path(folder).resolve())


def unmounted(folders: Sequence[str], mounts: Sequence[str]) -> str:
    """What to say where boxes do not see the server of one of some folders, or nothing."""
    for folder in folders:
        server = load(place(folder)).server
        if server and server["mount"] not in mounts:
            return (
                f"routine.domain.folders: boxes do not see the server of {folder}; run `pip install --target DIR "
                f"{' '.join(server['install'])}` and add 'sandbox.mounts={{{server['mount']}: DIR}}'."
            )
    return ""


def _root() -> Path:
    return Path(str(files("clawloop.synthesis"))) / "domains"
