"""An executable domain (paper, 4.1): tools over a database, records to fill it, and how people speak of both.

A domain is a folder of four files, named after the domain:

    schema.sql   the tables; each has a business key: a PRIMARY KEY that is no row number, or a UNIQUE constraint
    tools.py     plain functions `(db: sqlite3.Connection, a: str, n: int, ...) -> dict`, which raise ValueError
    world.py     fill(db, rng): plausible records, from nothing but `rng`
    words.yaml   phrases for goals and for what lookups find, and the values that no record has

and, where they are needed, of graph.yaml (`skills.completion`) and skills.yaml (`skills.grouping`).
Or its tools are those of an MCP server: server.yaml stands in place of the first two, and observed.json beside it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from clawloop.synthesis.skills import completion as completions
from clawloop.synthesis.skills import grouping as groupings
from clawloop.synthesis.skills import observed as observations
from clawloop.synthesis.skills.cluster import Skill
from clawloop.synthesis.skills.completion import Claim, completed, read_claims
from clawloop.synthesis.skills.grouping import Grouping, grouped
from clawloop.synthesis.skills.observed import load_observed, spec
from clawloop.synthesis.skills.read import Tool, read_tools
from clawloop.synthesis.skills.table import Table, read_tables
from clawloop.synthesis.skills.words import Lookup, read_values, read_words

PARTS = ("schema.sql", "tools.py", "world.py", "words.yaml")
OPTIONAL = (completions.NAME, groupings.NAME)


@dataclass(frozen=True, slots=True, eq=False)
class Sources:
    """The files of a domain, with its tools as far as their code and graph.yaml say what they do.

    Two of them are one where they are one object: `read` hands the same one out while the files stay the same.
    """

    path: Path
    schema: str
    code: str
    world: str
    words: str
    tools: Mapping[str, Tool]
    tables: Mapping[str, Table]
    claims: Mapping[str, Claim]
    values: Mapping[str, Any]
    grouping: str | None
    server: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Domain:
    """A domain as its files have it, its tools as their code has them, and its tables as SQLite reads the schema.

    `claims` are what graph.yaml adds to the code. `remedies` are the changes by which an obstacle may be removed, each
    with the rule that the contract declares. `server` is what programs in a box are told of an MCP server, empty where
    the tools are functions in `code`. Two domains are one where they are one object, as `Sources`.
    """

    name: str
    about: str
    held: bool
    schema: str
    code: str
    world: str
    tools: Mapping[str, Tool]
    tables: Mapping[str, Table]
    claims: Mapping[str, Claim]
    grouping: Grouping
    lookups: Mapping[str, Lookup]
    goals: Mapping[str, tuple[str, ...]]
    remedies: Mapping[str, str]
    values: Mapping[str, Any]
    decisions: tuple[tuple[str, str], ...]
    server: Mapping[str, Any] = field(default_factory=dict)

    @property
    def skills(self) -> tuple[Skill, ...]:
        """The skills that its tools form: by affinity, or as skills.yaml groups them."""
        return self.grouping.skills


def shipped() -> tuple[str, ...]:
    """The names of the domains that come with the project."""
    return tuple(sorted(folder.name for folder in _root().iterdir() if (folder / "tools.py").is_file()))


def served() -> tuple[str, ...]:
    """The names of those that come with the project too, but are drawn only where their server's package is."""
    return tuple(sorted(folder.name for folder in _root().iterdir() if (folder / observations.PARTS[0]).is_file()))


def read(folder: str) -> Sources:
    """The files of a folder, or of a shipped domain's name.

    Raises:
        ValueError: a file is missing or cannot be read; the sentence names it.
    """
    path = _root() / folder if folder in (*shipped(), *served()) else Path(folder)
    if (path / observations.PARTS[0]).is_file():
        return _served(path, *(_content(path / part) for part in (*observations.PARTS, observations.NAME, *OPTIONAL)))
    if missing := [part for part in PARTS if not (path / part).is_file()]:
        raise ValueError(
            f"{path} is no domain: it lacks {missing[0]}; shipped are {', '.join(shipped())}, and a folder of your own "
            f"holds {', '.join(PARTS)}."
        )
    texts = [(path / part).read_text(encoding="utf-8") for part in PARTS]
    return _sources(path, *texts, *(_content(path / part) for part in OPTIONAL))


def load(folder: str) -> Domain:
    """The domain of a folder, or of a shipped domain's name; the same object while its files stay the same.

    Raises:
        ValueError: a file is missing or says something that cannot be; the sentence names it.
    """
    return _domain(read(folder))


@cache
def _sources(
    path: Path, schema: str, code: str, world: str, words: str, completion: str | None, grouping: str | None
) -> Sources:
    tools = {tool.name: tool for tool in read_tools(code, str(path / "tools.py"))}
    tables = {table.name: table for table in read_tables([schema], str(path / "schema.sql"))}
    claims = read_claims(completion, tools, tables, str(path / completions.NAME)) if completion is not None else {}
    values = read_values(words, str(path / "words.yaml"))
    return Sources(path, schema, code, world, words, completed(tools, claims), tables, claims, values, grouping)


@cache
def _served(path: Path, *texts: str | None) -> Sources:
    """The same for an MCP server: what its tools do was observed. `texts` are all files of the folder."""
    server, observed, tables = load_observed(path)
    (_, world, words, _), (claimed, grouping) = map(str, texts[:4]), texts[4:]
    if claimed is not None:
        raise ValueError(f"{path / completions.NAME}: nothing of a server's tools is left to say; remove it.")
    tools = {tool.name: tool for tool in observed.tools}
    values = read_values(words, str(path / "words.yaml"))
    return Sources(path, "", "", world, words, tools, tables, {}, values, grouping, spec(server, observed, tables))


@cache
def _domain(sources: Sources) -> Domain:
    path, tools, tables = sources.path, sources.tools, sources.tables
    for tool in tools.values():
        for reason in tool.unknown.values():
            raise ValueError(
                f"{reason} Else say in {completions.NAME} what {tool.name} {', '.join(tool.unknown)}, "
                f"or have the model say it: clawloop domains ask {path}."
            )
    if unknown := sorted({name for tool in tools.values() for name in (*tool.reads, *tool.writes)} - set(tables)):
        raise ValueError(f"{path / 'tools.py'} speaks of a table {unknown[0]!r} that schema.sql does not have.")
    return Domain(
        path.name,
        schema=sources.schema,
        code=sources.code,
        world=sources.world,
        tools=tools,
        tables=tables,
        claims=sources.claims,
        grouping=grouped(tools, sources.grouping, str(path / groupings.NAME)),
        values=sources.values,
        server=sources.server,
        **read_words(sources.words, tools, str(path / "words.yaml")),
    )


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
    """The path of a folder; the bare name of a domain that comes with the project is that domain's."""
    return str(_root() / folder if folder in (*shipped(), *served()) else Path(folder).resolve())


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


def _content(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


def _root() -> Path:
    return Path(str(files("clawloop.synthesis"))) / "domains"
