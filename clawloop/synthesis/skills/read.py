"""Reading tools from their code (paper, 4.1): AST inspection for parameters, fields and refusals, sqlglot for the SQL.

Nothing is taken from documentation but the one sentence that says what a tool is for. What the code does not say is
told as unknown, to be completed (`skills.completion`).
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import sqlglot
from sqlglot import exp

from clawloop.sandbox.lint import syntax_tree

TYPES = ("str", "int", "float")
PARTS = ("gives", "reads", "writes")  # what code may leave open
_RUNS = ("execute", "executemany", "executescript")


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as its code has it.

    `params` are names and types; `gives` are the fields that it returns and was not handed; `rows` is the key under
    which it returns several rows, or empty. `reads` and `writes` are tables, its helpers' included. `refusals` are the
    sentences with which it refuses, a gap where a value goes. `helpers` are the module's functions that it calls.
    `unknown` has those of `PARTS` that the code does not say in full, each with the sentence that names the line.
    """

    name: str
    about: str
    params: Mapping[str, str]
    gives: tuple[str, ...]
    rows: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    refusals: tuple[str, ...]
    helpers: tuple[str, ...]
    unknown: Mapping[str, str] = field(default_factory=dict)


def parsed(code: str, at: str) -> ast.Module:
    """The syntax tree of a module.

    Raises:
        ValueError: it is no Python; the sentence names the line.
    """
    try:
        return syntax_tree(code)
    except SyntaxError as error:
        raise ValueError(f"{at}:{error.lineno}: {error.msg}.") from error


def read_tools(code: str, at: str) -> tuple[Tool, ...]:
    """The public functions of a module of tools, in their order.

    Raises:
        ValueError: the code is not of the form that can be read; the sentence names the line and the cure.
    """
    tree = parsed(code, at)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    return tuple(_tool(node, functions, at) for name, node in functions.items() if not name.startswith("_"))


def _tool(node: ast.FunctionDef, functions: Mapping[str, ast.FunctionDef], at: str) -> Tool:
    params = _params(node, at)
    fields, rows, unsaid = _fields(node, at)
    unknown = {"gives": unsaid} if unsaid else {}
    helpers = _reached(node.name, functions)
    reads: set[str] = set()
    writes: set[str] = set()
    for call in (call for name in (node.name, *helpers) for call in _calls(functions[name])):
        try:
            seen, changed = touched(_plain(call))
        except ValueError as error:
            unknown |= {part: f"{at}:{call.lineno}: {error}" for part in ("reads", "writes") if part not in unknown}
            continue
        reads |= seen
        writes |= changed
    return Tool(
        name=node.name,
        about=(ast.get_docstring(node) or "").split("\n")[0],
        params=params,
        gives=tuple(field for field in fields if field not in params),
        rows=rows,
        reads=tuple(sorted(reads)),
        writes=tuple(sorted(writes)),
        refusals=tuple(text for name in (node.name, *helpers) for text in _refusals(functions[name])),
        helpers=helpers,
        unknown=unknown,
    )


def touched(text: str) -> tuple[set[str], set[str]]:
    """The tables that some SQL reads and those that it writes.

    Raises:
        ValueError: it is no SQL that can be read; one sentence.

    >>> touched("INSERT INTO log SELECT bee FROM bees")
    ({'bees'}, {'log'})
    """
    reads: set[str] = set()
    writes: set[str] = set()
    try:
        statements = sqlglot.parse(text, read="sqlite")
    except sqlglot.errors.SqlglotError as error:
        raise ValueError(f"the SQL cannot be read: {str(error).splitlines()[0]}") from error
    for statement in (part for part in statements if part is not None):
        changed = _changed(statement)
        seen = [table.name for table in statement.find_all(exp.Table)]
        for table in changed:
            seen.remove(table)
        reads |= set(seen)
        writes |= changed
    return reads, writes


def _params(node: ast.FunctionDef, at: str) -> dict[str, str]:
    found = {}
    for argument in node.args.args[1:]:
        kind = ast.unparse(argument.annotation) if argument.annotation else ""
        if kind not in TYPES:
            raise ValueError(f"{at}:{node.lineno}: {node.name}'s {argument.arg} must have one of {', '.join(TYPES)}.")
        found[argument.arg] = kind
    if not node.args.args or node.args.kwonlyargs or node.args.vararg or node.args.kwarg or node.args.defaults:
        raise ValueError(f"{at}:{node.lineno}: {node.name} must take the database and named values without defaults.")
    return found


def _fields(node: ast.FunctionDef, at: str) -> tuple[list[str], str, str]:
    """The keys of the returned dict; where one holds a list of dicts, the keys of these, and its own as `rows`.

    Where these are not written out, last the sentence that says so.
    """
    fields: list[str] = []
    rows = unsaid = ""
    for step in ast.walk(node):
        if not isinstance(step, ast.Return):
            continue
        items = _items(step.value)
        inner = {key: _inner(value) for key, value in items or ()}
        if items is None or any(own is None for own in inner.values()):
            unsaid = unsaid or (
                f"{at}:{step.lineno}: {node.name} must return a dict that is written out, {{'name': ...}}."
            )
        for key, own in inner.items():
            rows = key if own else rows
            fields += [] if own is None else own or [key]
    return list(dict.fromkeys(fields)), rows, unsaid


def _items(node: ast.expr | None) -> list[tuple[str, ast.expr]] | None:
    """The keys and values of a dict whose keys are all written out; None for anything else."""
    if not isinstance(node, ast.Dict):
        return None
    keys = [key.value for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
    return list(zip(keys, node.values, strict=True)) if len(keys) == len(node.keys) else None


def _inner(value: ast.expr) -> list[str] | None:
    """The keys of the rows that a value lists, none for another value; None where its rows are not written out."""
    rows = [row for row in ast.walk(value) if isinstance(row, ast.Dict)]
    found = [_items(row) for row in rows]
    if None in found or (isinstance(value, ast.ListComp) and not rows):
        return None
    return [field for row in found for field, _ in row or ()]


def _reached(name: str, functions: Mapping[str, ast.FunctionDef]) -> tuple[str, ...]:
    """The functions of the module that a function calls, directly or not, in the module's order."""
    found, left = {name}, [name]
    while left:
        called = {step.id for step in ast.walk(functions[left.pop()]) if isinstance(step, ast.Name)}
        left += sorted((called & set(functions)) - found)
        found |= called & set(functions)
    return tuple(other for other in functions if other in found and other != name)


def _calls(node: ast.FunctionDef) -> Iterator[ast.Call]:
    """The calls of a function that run SQL."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in _RUNS:
            yield call


def _plain(call: ast.Call) -> str:
    text = call.args[0] if call.args else None
    if not (isinstance(text, ast.Constant) and isinstance(text.value, str)):
        raise ValueError("the SQL must be a plain string, so that it can be read; use ? for values.")
    return text.value


def _changed(statement: exp.Expr) -> set[str]:
    if not isinstance(statement, exp.Insert | exp.Update | exp.Delete):
        return set()
    table = statement.this if isinstance(statement.this, exp.Table) else statement.this.find(exp.Table)
    return {table.name}


def _refusals(node: ast.FunctionDef) -> list[str]:
    texts = []
    for step in ast.walk(node):
        if isinstance(step, ast.Raise) and isinstance(step.exc, ast.Call) and step.exc.args:
            said = step.exc.args[0]
            parts = said.values if isinstance(said, ast.JoinedStr) else [said]
            texts.append("".join(str(p.value) if isinstance(p, ast.Constant) else "..." for p in parts))
    return texts
