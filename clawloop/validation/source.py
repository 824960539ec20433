"""A source of a workspace, table, JSON or text: what it has as values, and the same file with other ones."""

import json
from collections.abc import Iterator

from clawloop.validation.tokens import NUMBER, tokens


def values(path: str, text: str) -> tuple[str, ...]:
    """The tokens of a file's values: of a table all below the header, of JSON the leaves, else the numbers."""
    if path.endswith((".csv", ".tsv")):
        return tokens(text.partition("\n")[2])
    if (value := _json(path, text)) is not None:
        return tokens(list(leaves(value)))
    return tuple(token for token in tokens(text) if NUMBER.fullmatch(token))


def _json(path: str, text: str) -> object:
    try:
        return json.loads(text) if path.endswith(".json") else None
    except (ValueError, RecursionError):
        return None


def leaves(value: object) -> Iterator[object]:
    """The scalars of a JSON value, in order."""
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from leaves(inner)
    else:
        yield value


def emptied(text: str) -> str:
    """A file without its entries: a JSON document of its kind, or the first line."""
    start = text.lstrip()[:1]
    return {"{": "{}\n", "[": "[]\n"}.get(start) or text.partition("\n")[0] + "\n"


def turned(path: str, text: str) -> str:
    r"""A reference whose values stand on other rows; without its rows where that cannot be done.

    >>> turned("a.csv", "place,rate\nhill,2\nlake,5\n")
    'place,rate\nhill,5\nlake,2\n'
    >>> turned("a.json", '{"hill": 2, "lake": 5}')
    '{"hill": 5, "lake": 2}'
    """
    new = text
    if path.endswith((".csv", ".tsv")):
        comma = "\t" if path.endswith(".tsv") else ","
        head, *rows = [line.partition(comma) for line in text.splitlines()] or [("", "", "")]
        moved = zip(rows, rows[1:] + rows[:1], strict=True)
        new = "".join(f"{''.join(row)}\n" for row in (head, *((key, by, other[2]) for (key, by, _), other in moved)))
    elif (value := _json(path, text)) is not None:
        held = list(leaves(value))
        new = json.dumps(_refilled(value, iter(held[1:] + held[:1])))
    return new if new.split() != text.split() else emptied(text)


def _refilled(value: object, held: Iterator[object]) -> object:
    if isinstance(value, dict):
        return {key: _refilled(inner, held) for key, inner in value.items()}
    return [_refilled(inner, held) for inner in value] if isinstance(value, list) else next(held)
