"""The tables of a domain's state, and the business key by which their records are found."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its columns without the row number, and the business key by which its records are found.

    `stored` are the columns as the state has them, where their names in the domain are others; else the same.
    """

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    stored: tuple[str, ...] = ()


def read_tables(schema: Iterable[str], at: str, keys: Mapping[str, Sequence[str]] | None = None) -> list[Table]:
    """The tables that statements of SQL make.

    Args:
        schema: each a statement, or a script of `CREATE` statements.
        at: where they stand.
        keys: business keys that the schema does not tell, by table, whose row numbers then count as columns; an empty
            one leaves the table out.

    Raises:
        ValueError: SQLite cannot read them, or a table has no business key.
    """
    db = sqlite3.connect(":memory:")
    db.set_authorizer(lambda action, *_: sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_ATTACH else sqlite3.SQLITE_OK)
    try:
        for statements in schema:
            db.executescript(statements)
        query = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY rowid"
        names = [name for (name,) in db.execute(query) if not name.startswith("sqlite_")]
        known = keys or {}
        return [_table(db, name, at, known.get(name)) for name in names if known.get(name) != ()]
    except sqlite3.Error as error:
        raise ValueError(f"{at} is no schema that SQLite can read: {error}.") from error
    finally:
        db.close()


def source(tables: Mapping[str, Table], values: Mapping[str, Any], param: str) -> tuple[str, ...] | None:
    """Where a value of a parameter is drawn from: a table and its column, `values`, or nowhere (None)."""
    if param in values:
        return ("values",)
    keyed = [table.name for table in tables.values() if table.key == (param,)]
    having = [table.name for table in tables.values() if param in table.columns]
    found = (keyed or having)[:1]
    return (found[0], param) if found else None


def _table(db: sqlite3.Connection, name: str, at: str, given: Sequence[str] | None) -> Table:
    columns = db.execute("SELECT name, upper(type), pk FROM pragma_table_info(?) ORDER BY cid", (name,)).fetchall()
    primary = [column for column, _, place in sorted(columns, key=lambda row: int(row[2])) if place]
    number = {
        column for column, kind, place in columns if place and kind == "INTEGER" and len(primary) == 1 and not given
    }
    unique = db.execute(
        "SELECT name FROM pragma_index_list(?) WHERE \"unique\" AND origin = 'u' ORDER BY seq", (name,)
    ).fetchall()
    keys = [list(given)] if given else []
    keys += [primary] if primary and not number else []
    keys += [[c for (c,) in db.execute("SELECT name FROM pragma_index_info(?) ORDER BY seqno", row)] for row in unique]
    if not keys:
        raise ValueError(f"{at}: the table {name} has no business key; give it a PRIMARY KEY of text, or UNIQUE (...).")
    if unknown := sorted(set(keys[0]) - {column for column, _, _ in columns}):
        raise ValueError(f"{at}: the table {name} has no column {unknown[0]!r} for its key.")
    return Table(name, tuple(column for column, _, _ in columns if column not in number), tuple(keys[0]))
