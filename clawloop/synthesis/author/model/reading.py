"""A reply as a program: taken out strictly, and read before it runs.

The box is what holds an untrusted program. The reading only finds early, and in words that help a repair, what could
not become a task anyway.
"""

import ast
import re
from collections.abc import Iterator

from clawloop.sandbox.lint import dotted, first_hazard, imports, parse

MODULES = (
    *("bisect", "calendar", "collections", "copy", "csv", "dataclasses", "datetime", "decimal", "enum", "fractions"),
    *("functools", "hashlib", "heapq", "io", "itertools", "json", "math", "operator", "random", "re", "statistics"),
    *("string", "textwrap", "typing", "unicodedata"),
)
_NAMES = frozenset(
    {"open", "eval", "exec", "compile", "input", "breakpoint", "globals", "vars", "print", "exit", "quit"}
    | {"__import__", "__builtins__"}
)
_BLOCK = re.compile(r"^```python[ \t]*\n(.*?)^```[ \t]*$", re.DOTALL | re.MULTILINE)
_LONGEST = 64 << 10
_DUNDER = frozenset({"__init__", "__name__"})  # what a sound class or a message may say
_WALKERS = frozenset(
    {"list", "tuple", "enumerate", "iter", "zip", "map", "filter", "reversed", "dict.fromkeys", "next"}
)
_ORDERLESS = frozenset({"sorted", "sum", "min", "max", "any", "all", "len", "set", "frozenset"})


class ReadingError(Exception):
    """A reply holds no program that may run: one sentence, and `fault`, reply or reading."""

    def __init__(self, text: str, fault: str) -> None:
        super().__init__(text)
        self.fault = fault


def program(reply: str) -> str:
    r"""The program of a reply; what a model thinks before `</think>` is no part of it.

    Raises:
        ReadingError: there is not exactly one block, or the program may not run.

    >>> program("Here.\n```python\ndef build(seed):\n    return {}\n```\n")
    'def build(seed):\n    return {}\n'
    """
    blocks = _BLOCK.findall(reply.rpartition("</think>")[2].replace("\r\n", "\n"))
    if len(blocks) != 1:
        raise ReadingError(f"The reply holds {len(blocks)} closed python blocks, and exactly one is needed.", "reply")
    if len(blocks[0].encode("utf-8", "replace")) > _LONGEST:
        raise ReadingError(f"The program has more than {_LONGEST} bytes.", "reply")
    if reason := refusal(blocks[0]):
        raise ReadingError(f"The program may not run: {reason}", "reading")
    return str(blocks[0])


def refusal(text: str) -> str:
    """Why a program may not run, as one sentence with the line; empty where nothing was found."""
    try:
        tree = parse(text)
    except ValueError as error:
        return str(error)
    found = sorted(_refused(tree))
    if found:
        return f"line {found[0][0]} {found[0][1]}"
    if hazard := first_hazard(text):
        return hazard
    builds = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "build"]
    if len(builds) != 1 or len(builds[0].args.posonlyargs + builds[0].args.args) != 1 or builds[0].args.kwonlyargs:
        return "it must define build(seed), once, at the top level, with one argument."
    return ""


def _refused(tree: ast.Module) -> Iterator[tuple[int, str]]:
    known = imports(tree)
    modules = {name for name, path in known.items() if path in MODULES}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [item.name for item in node.names] if isinstance(node, ast.Import) else [node.module or "."]
            for name in names:
                if name.split(".")[0] not in MODULES or (isinstance(node, ast.ImportFrom) and node.level):
                    yield node.lineno, f"imports {name}, which is not among the modules that may be used."
        elif isinstance(node, ast.Name) and node.id in _NAMES:
            yield node.lineno, f"uses {node.id}, which a generator may not."
        elif isinstance(node, ast.Name) and node.id == "__name__":
            yield node.lineno, "has a main of its own; leave it out, build is called for you."
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            private = isinstance(node.value, ast.Name) and node.value.id in modules
            if private or (node.attr.endswith("__") and node.attr not in _DUNDER):
                yield node.lineno, f"uses {node.attr}, which a generator may not."
        elif isinstance(node, ast.Attribute) and dotted(node, known) == "io.open":
            yield node.lineno, "uses io.open, which a generator may not."
    yield from _unsorted(tree)


def _unsorted(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Where a program goes through a set, and the order shows."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    harmless = {
        id(argument)
        for call in calls
        if isinstance(call.func, ast.Name) and call.func.id in _ORDERLESS
        for argument in call.args
    }
    walked: list[ast.expr] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.For):
            walked.append(node.iter)
        elif isinstance(node, ast.ListComp | ast.GeneratorExp | ast.DictComp) and id(node) not in harmless:
            walked += [part.iter for part in node.generators]
        elif isinstance(node, ast.Starred):
            walked.append(node.value)
        elif isinstance(node, ast.Call) and id(node) not in harmless:
            named = isinstance(node.func, ast.Name | ast.Attribute) and ast.unparse(node.func) in _WALKERS
            joined = isinstance(node.func, ast.Attribute) and node.func.attr == "join"
            walked += node.args if named or joined else []
    for node in walked:
        called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("set", "frozenset")
        if called or isinstance(node, ast.Set | ast.SetComp):
            yield node.lineno, "goes through a set, whose order depends on the hash seed; sort it first."
