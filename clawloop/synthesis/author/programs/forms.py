"""Forms of deliverables: how a number or a list of rows is asked for, delivered and checked."""

from collections.abc import Callable
from typing import Any

from clawloop.synthesis.author.programs.scene import OUTPUTS, Scene

Number = tuple[str, "int | float"]  # the command that prints it, its value
Kinds = dict[int, list[Callable[[Scene], Any]]]  # by level


class Rows:
    """An answer of several lines.

    `columns` names the cells of a line, `header` says whether the first line is one, `order` declares an order.
    """

    def __init__(self, command: str, lines: list[str], columns: list[str], header: bool = False, order: str = "") -> None:
        self.command, self.lines, self.columns, self.header, self.order = command, lines, columns, header, order


def number(kind: Callable[[Scene], Number]) -> Callable[[Scene], None]:
    """A kind whose answer is one number, in the card's form."""

    def build(scene: Scene) -> None:
        command, value = kind(scene)
        deliver_number(scene, command, value)
        scene.unchanged()

    build.__name__ = kind.__name__
    return build


def rows(kind: Callable[[Scene], Rows]) -> Callable[[Scene], None]:
    """A kind whose answer is a list; as `files`, a second file holds its number of lines."""

    def build(scene: Scene) -> None:
        made = kind(scene)
        path = scene.output(".csv")
        scene.oracle = [f"{made.command} > {path}"]
        deliver_rows(scene, path, made)
        if scene.form == "files":
            size = scene.output(".txt")
            scene.say("to_size", file=size, rows=path)
            scene.oracle = [f"{scene.oracle[0]}; wc -l < {path} > {size}"]
            scene.answer["lines"] = len(made.lines)
            scene.deliver(size, "text", {"lines": "integer"})
            scene.check("lines", size, "number")
        scene.unchanged()

    build.__name__ = kind.__name__
    return build


def deliver_number(scene: Scene, command: str, value: float) -> None:
    """Ask for a number in the card's form, with the oracle that delivers it."""
    key, exact = scene.key(), isinstance(value, int)
    tolerance = 0.0 if exact else 0.01
    kind, form = "integer" if exact else "number", scene.form
    scene.answer[key] = value
    common: dict[str, Any] = {"answer": key, "key": key, "tolerance": tolerance}
    if form == "csv":
        path = scene.output(".csv")
        scene.say("to_pair", key=key, file=path)
        scene.deliver(path, "csv", {key: kind}, tolerance)
        scene.check(key, path, "pair", **common)
        scene.oracle = [f'echo "{key},$({command})" > {path}']
        return
    stem = scene.stem(OUTPUTS)
    path = f"{stem}.json"
    store = f"echo \"{{\\\"{key}\\\": $({command})}}\" > {path}"
    if form == "json":
        scene.say("to_json", key=key, file=path)
    else:
        other = f"{stem}.md" if form == "report" else f"{stem}.txt"
        line = f"{key}: $n" if form == "report" else "$n"
        scene.say("to_report" if form == "report" else "to_both", key=key, file=path, text=other)
        scene.deliver(other, "text", {f"{key}_line" if form == "report" else f"{key}_alone": kind}, tolerance)
        scene.check(other, other, "line" if form == "report" else "number", **common)
        store = f"n=$({command}); echo \"{line}\" > {other}; echo \"{{\\\"{key}\\\": $n}}\" > {path}"
    scene.deliver(path, "json", {key: kind}, tolerance)
    scene.check(key, path, "json", **common)
    scene.oracle = [store]


def deliver_rows(scene: Scene, path: str, made: Rows) -> None:
    """Ask for rows in a CSV file, and have them checked."""
    single, what = len(made.columns) == 1, made.columns[0] if len(made.columns) == 1 else "rows"
    scene.say("to_header" if made.header else "to_rows", file=path, columns=",".join(made.columns))
    if made.order:
        scene.rule("order", made.order)
    scene.answer[what] = made.lines if single else [line.split(",") for line in made.lines]
    scene.deliver(path, "csv", {what: "list" if single else ",".join(made.columns)})
    scene.check(what, path, "rows", answer=what, ordered=bool(made.order), header=made.header)


def choose(numbers: Kinds, lists: Kinds, states: Kinds, track: str, level: int, form: str) -> list[Callable[[Scene], None]]:
    """The kinds of a card: end states on the terminal track, else numbers, and lists where the form can hold them."""
    if track == "terminal":
        return states[level]
    more = [rows(kind) for kind in lists[level]] if form in ("csv", "files") else []
    return [number(kind) for kind in numbers[level]] + more
