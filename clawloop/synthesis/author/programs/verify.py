"""The verifier of the library's tasks: compares each declared field of the final workspace with the answer key.

It runs in a folder with key.json, refused.json (path to reason) and work/, a copy of the regular files. `grade` is
handed the checks and its result is printed; no input makes it fail.
"""

import csv
import hashlib
import io
import json
import math
import os
from typing import Any

LIMIT = 1_000_000


class Wrong(Exception):
    """A field is not right; the message is the reason."""


def grade(checks: list[dict[str, Any]]) -> dict[str, str | None]:
    """Field to None where it is right, else to its reason."""
    with open("key.json", encoding="utf-8") as file:
        key = json.load(file)
    with open("refused.json", encoding="utf-8") as file:
        refused = json.load(file)
    return {check["name"]: reason(check, key, refused) for check in checks}


def reason(check: dict[str, Any], key: dict[str, Any], refused: dict[str, str]) -> str | None:
    """Why one field is wrong; None where it is right."""
    try:
        judge(check, key.get(check.get("answer", check["name"])), refused)
    except Wrong as wrong:
        return str(wrong)
    return None


def judge(check: dict[str, Any], right: Any, refused: dict[str, str]) -> None:
    """One check by its kind."""
    path, kind = check["path"], check["kind"]
    if kind == "same":
        for kept, digest in sorted(check["files"].items()):
            need(hashlib.sha256(load(kept, refused)).hexdigest() == digest)
    elif kind == "absent":
        for gone in check["paths"]:
            need(gone not in refused and not os.path.lexists(f"work/{gone}"), "still_there")
    elif kind == "folder":
        need(os.path.isdir(f"work/{path}"), "missing")
    elif kind == "names":
        names(path, right, refused)
    elif kind == "bytes":
        need(hashlib.sha256(load(path, refused)).hexdigest() == right)
    elif kind == "json":
        value = fields(text(path, refused))
        need(check["key"] in value, "missing")
        compare(value[check["key"]], right, check)
    elif kind == "pair":
        table = rows(text(path, refused))
        need(len(table) == 1 and len(table[0]) == 2 and table[0][0] == check["key"])
        compare(number(table[0][1]), right, check)
    elif kind == "number":
        compare(number(text(path, refused)), right, check)
    elif kind == "line":
        marked = [line for line in text(path, refused).splitlines() if line.startswith(check["key"] + ":")]
        need(len(marked) == 1, "missing")
        compare(number(marked[0].partition(":")[2]), right, check)
    else:
        sequence(text(path, refused), right, check)


def need(condition: bool, reason: str = "wrong_value") -> None:
    """Raise Wrong with the reason unless the condition holds."""
    if not condition:
        raise Wrong(reason)


def load(path: str, refused: dict[str, str]) -> bytes:
    """A delivered file."""
    above = ["/".join(path.split("/")[:depth]) for depth in range(1, path.count("/") + 2)]
    for place in above:
        if place in refused:
            raise Wrong("too_large" if refused[place] == "too_large" else "not_regular")
    full = f"work/{path}"
    need(os.path.lexists(full), "missing")
    need(os.path.isfile(full) and not os.path.islink(full), "not_regular")
    need(os.path.getsize(full) <= LIMIT, "too_large")
    with open(full, "rb") as file:
        return file.read()


def text(path: str, refused: dict[str, str]) -> str:
    """A delivered file as text."""
    try:
        return load(path, refused).decode("utf-8")
    except UnicodeDecodeError:
        raise Wrong("not_utf8") from None


def fields(text: str) -> dict[str, Any]:
    """A JSON object without a repeated key."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise Wrong("bad_json")
        return dict(pairs)

    try:
        value = json.loads(text, object_pairs_hook=unique, parse_constant=lambda name: None)
    except (ValueError, RecursionError):
        raise Wrong("bad_json") from None
    need(isinstance(value, dict), "wrong_type")
    return dict(value)


def rows(text: str) -> list[list[str]]:
    """The rows of a CSV, cells stripped, empty lines left out."""
    try:
        table = list(csv.reader(io.StringIO(text), strict=True))
    except csv.Error:
        raise Wrong("bad_csv") from None
    return [[cell.strip() for cell in row] for row in table if any(cell.strip() for cell in row)]


def number(text: str) -> float:
    """A number written out in plain digits."""
    bare = text.strip()
    need(bare != "", "missing")
    need(len(bare) < 40 and bare.isascii() and "_" not in bare, "wrong_type")
    try:
        value = float(bare)
    except ValueError:
        raise Wrong("wrong_type") from None
    need(math.isfinite(value), "wrong_type")
    return value


def compare(value: Any, right: Any, check: dict[str, Any]) -> None:
    """A value with the right one, by the right one's type."""
    if isinstance(right, list):
        need(isinstance(value, list) and all(isinstance(item, str) for item in value), "wrong_type")
        need([item.strip() for item in value] == right)
    elif isinstance(right, str):
        need(isinstance(value, str), "wrong_type")
        need(value.strip() == right)
    else:
        need(isinstance(value, int | float) and not isinstance(value, bool), "wrong_type")
        need(check["kind"] != "json" or isinstance(value, int) or isinstance(right, float), "wrong_type")
        need(abs(value) < 1e15 and abs(value - right) <= check.get("tolerance", 0.0) + 1e-9)


def sequence(text: str, right: list[Any], check: dict[str, Any]) -> None:
    """Rows of a CSV or lines of a text with the right ones, in order where the contract says so."""
    if check["kind"] == "rows":
        right = [row if isinstance(row, list) else [row] for row in right]
        found: list[Any] = rows(text)
    else:
        found = [line.rstrip() for line in text.splitlines() if line.strip()]
    head = 1 if check.get("header") else 0
    need(found != [], "missing")
    need(found[:head] == right[:head])
    body, wanted = found[head:], right[head:]
    need(body == wanted if check.get("ordered") else sorted(body) == sorted(wanted))


def names(path: str, right: list[str], refused: dict[str, str]) -> None:
    """The entries of a folder with the right ones."""
    full = f"work/{path}"
    need(os.path.isdir(full), "missing")
    inside = [place[len(path) + 1 :] for place in refused if place.startswith(path + "/")]
    found = sorted(os.listdir(full)) + inside
    need(all(name in found for name in right), "missing")
    need(all(name in right for name in found), "unexpected_file")
