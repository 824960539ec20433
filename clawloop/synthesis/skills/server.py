"""An MCP server as a domain, as its server.yaml has it: how it starts in a box, where its state lies, what is used.

    install: [some-server==1.2]              what was installed into the folder that `mount` shows
    mount: /opt/some                         where a box sees that folder (sandbox.mounts)
    command: [python3, -m, some_server]      {state} is the path of the state's file, here and in the environment
    environment: {SOME_DB: "{state}"}
    timeout_s: 20                            seconds that the server may take for an answer
    state: {file: state.db, form: sqlite}    or json or jsonl, then with `empty`: the document without records
    tables:                                  of SQLite only what the schema does not tell; null leaves a table out
      tasks: {key: [title], volatile: [made_at], names: {id: task_id}}
      notes: {at: data.notes, where: {type: note}, columns: [id, text], key: [id]}    of JSON every table, like this
    tools:                                   only those that need more than what the server lists of them
      open_tasks: {tool: list_tasks, takes: [owner], with: {status: open}, names: {id: task_id}, rows: result}

`names` go from the server's to the domain's; `key` and `volatile` are in the domain's. What is volatile differs each
time a change is made, such as the moment of it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from clawloop.synthesis.skills.table import Table, read_tables

FORMS = ("sqlite", "json", "jsonl")
_NEEDED = ("install", "mount", "command", "state")
_KEYS = (*_NEEDED, "environment", "timeout_s", "tables", "tools")
_TABLE = ("key", "volatile", "names", "at", "where", "columns")
_USE = ("tool", "takes", "with", "names", "rows")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Use:
    """How the domain uses a tool: the optional parameters that it has, what is always handed (`fixed`), other names."""

    tool: str
    takes: tuple[str, ...] = ()
    fixed: tuple[tuple[str, Any], ...] = ()
    names: tuple[tuple[str, str], ...] = ()
    rows: str = ""


@dataclass(frozen=True, slots=True)
class Server:
    """What server.yaml says. `tables` are as it has them; `uses` are by the domain's name for the tool."""

    install: tuple[str, ...]
    mount: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    timeout_s: float
    file: str
    form: str
    empty: Any
    tables: Mapping[str, Mapping[str, Any] | None]
    uses: Mapping[str, Use]


def read_server(text: str, at: str) -> Server:
    """A server.yaml.

    Raises:
        ValueError: something is missing, unknown or of another form; the sentence names it.
    """
    try:
        given = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"{at} is no YAML: {' '.join(str(error).split())}.") from error
    _known(given, _KEYS, at, "", _NEEDED)
    state = given["state"]
    _known(state, ("file", "form", "empty"), at, "state", ("file", "form"))
    if state["form"] not in FORMS:
        raise ValueError(f"{at}: state.form must be one of {', '.join(FORMS)}, not {state['form']!r}.")
    if not isinstance(state["file"], str) or not re.fullmatch(r"[\w-]+(\.[\w-]+)+", state["file"]):
        raise ValueError(f"{at}: state.file must be a plain file name such as state.db, not {state['file']!r}.")
    if state["form"] == "json" and "empty" not in state:
        raise ValueError(f"{at}: state.empty must be the document without records, such as {{notes: []}}.")
    if not isinstance(given["mount"], str) or not given["mount"].startswith("/"):
        raise ValueError(f"{at}: mount must be a path in the box such as /opt/server, not {given['mount']!r}.")
    tables, tools = given.get("tables") or {}, given.get("tools") or {}
    _known(tables, tuple(tables) if isinstance(tables, dict) else (), at, "tables")
    _known(tools, tuple(tools) if isinstance(tools, dict) else (), at, "tools")
    for name, table in tables.items():
        if table is not None:
            _known(table, _TABLE, at, f"tables.{name}", () if state["form"] == "sqlite" else ("key", "columns"))
    variables = given.get("environment") or {}
    _known(variables, tuple(variables) if isinstance(variables, dict) else (), at, "environment")
    return Server(
        install=_texts(given["install"], at, "install"),
        mount=given["mount"],
        command=_texts(given["command"], at, "command"),
        environment={"PYTHONPATH": given["mount"], **{str(name): str(value) for name, value in variables.items()}},
        timeout_s=float(given.get("timeout_s", 20.0)),
        file=state["file"],
        form=state["form"],
        empty=state.get("empty", []),
        tables=tables,
        uses={name: _use(name, value or {}, at) for name, value in tools.items()},
    )


def tables_of(server: Server, schema: Sequence[str], at: str) -> dict[str, Table]:
    """The tables in the domain's names: those of the schema, or of JSON those that server.yaml tells.

    Raises:
        ValueError: there is none, or one has no business key or another column than it says.
    """
    told = {name: table or {} for name, table in server.tables.items()}
    names = {name: table.get("names", {}) for name, table in told.items()}
    own = {name: {ours: theirs for theirs, ours in names[name].items()} for name in told}
    keys = {name: tuple(own[name].get(c, c) for c in table.get("key", ())) for name, table in told.items()}
    if server.form == "sqlite":
        given = {
            name: () if table is None else keys[name]
            for name, table in server.tables.items()
            if table is None or keys[name]
        }
        found = read_tables(schema, at, given)
    else:
        found = [Table(name, tuple(table["columns"]), keys[name]) for name, table in told.items() if table]
    if unknown := sorted({name for name in told if server.tables[name] is not None} - {table.name for table in found}):
        raise ValueError(f"{at}: the state has no table {unknown[0]!r}.")
    renamed = {}
    for table in found:
        ours = names.get(table.name, {})
        columns, key = (tuple(ours.get(c, c) for c in part) for part in (table.columns, table.key))
        if unknown := sorted({*key, *told.get(table.name, {}).get("volatile", ())} - set(columns)):
            raise ValueError(f"{at}: the table {table.name} has no column {unknown[0]!r}.")
        renamed[table.name] = Table(table.name, columns, key, table.columns)
    if not renamed:
        raise ValueError(f"{at}: the state has no table.")
    return renamed


def _use(name: str, value: Any, at: str) -> Use:
    _known(value, _USE, at, f"tools.{name}")
    if not _NAME.fullmatch(str(name)):
        raise ValueError(f"{at}: tools.{name} must be a name of letters, digits and underscores.")
    return Use(
        tool=str(value.get("tool", name)),
        takes=_texts(value.get("takes", []), at, f"tools.{name}.takes"),
        fixed=tuple(value.get("with", {}).items()),
        names=tuple(value.get("names", {}).items()),
        rows=str(value.get("rows", "")),
    )


def _known(value: Any, keys: Sequence[str], at: str, place: str, needed: Sequence[str] = ()) -> None:
    """Refuse what is no mapping, lacks a key or has an unknown one."""
    where = f"{at}: {place}" if place else at
    if not isinstance(value, dict):
        raise ValueError(f"{where} must be a mapping.")
    if missing := [key for key in needed if key not in value]:
        raise ValueError(f"{where} lacks {missing[0]}.")
    if unknown := sorted(str(key) for key in value if key not in keys):
        raise ValueError(f"{where} has no {unknown[0]!r}; it may have {', '.join(keys)}.")


def _texts(value: Any, at: str, place: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError(f"{at}: {place} must be a list of texts.")
    return tuple(value)
