"""No task twice: what a model writes must differ from what it wrote before in more than names and numbers."""

import ast
import hashlib
import re
from collections.abc import Sequence

from clawloop.sandbox.lint import imports, parse
from clawloop.types import Candidate, Finding, Task

_WORD = re.compile(r"[^\W\d_]+|\d+")


class Duplicate:
    """Refuses a candidate whose program and whose words are those of an earlier one, but for names and numbers.

    Two candidates are duplicates where both are the same:
      - the *skeleton* of the program: its syntax tree without docstrings, in which every name that the program gives is
        replaced by its number of appearance, every literal by its type, and a collection of literals by its kind, so
        that another domain's vocabulary is no difference. Operators, calls, attributes and control flow stay;
      - the *wording*: instruction, decisions and deliverables, in which numbers, words of the domain's name and words
        that occur in the workspace or as names of deliverables and fields are blanks.
    Either alone is no duplicate. One program under other words is the variety of surface forms that the paper wants
    (4.1), and one sentence may stand over different work.

    Only candidates whose program a model wrote are compared (they have attempts, and are not of the domain route,
    where it writes the instruction). The programs that the project ships share their skeletons on purpose: there the
    parameters are the task.
    """

    def __init__(self) -> None:
        self._fingerprints: dict[str, str] = {}

    def compare(self, candidate: Candidate, before: Sequence[Candidate]) -> Finding:
        """Passes where no candidate of `before` is the same; the first that is, is named."""
        if not _written(candidate):
            return Finding("duplicate", True)
        own = self._fingerprint(candidate)
        same = next((other.id for other in before if _written(other) and self._fingerprint(other) == own), "")
        reason = f"but for names and numbers, program and instruction are those of {same}." if same else ""
        return Finding("duplicate", not same, reason)

    def _fingerprint(self, candidate: Candidate) -> str:
        """Skeleton and wording as 64 hex digits, made once for each candidate."""
        assert candidate.task is not None
        if candidate.id not in self._fingerprints:
            text = f"{skeleton(candidate.generator.program)}\n{wording(candidate.task)}"
            self._fingerprints[candidate.id] = hashlib.sha256(text.encode()).hexdigest()
        return self._fingerprints[candidate.id]


def _written(candidate: Candidate) -> bool:
    return bool(candidate.attempts) and candidate.card.route != "domain"


def skeleton(program: str) -> str:
    r"""A program's structure as text; the program itself where it cannot be parsed.

    >>> skeleton("def f(bees):\n    return bees + 1") == skeleton("def g(cows):\n    'Count.'\n    return cows + 25")
    True
    >>> skeleton("a = b + c") == skeleton("a = b + b")
    False
    """
    try:
        tree = parse(program)
    except ValueError:
        return program
    return ast.dump(_Skeleton(tree).visit(tree))


class _Skeleton(ast.NodeTransformer):
    """Gives every name that the program binds a number, and every literal its type."""

    def __init__(self, tree: ast.Module) -> None:
        bound = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
        bound += [node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)]
        bound += [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)]
        self._own = set(bound)
        self._imports = imports(tree)
        self._numbers: dict[str, str] = {}

    def _name(self, name: str) -> str:
        if name not in self._own:
            return self._imports.get(name, name)
        return self._numbers.setdefault(name, f"n{len(self._numbers)}")

    def visit(self, node: ast.AST) -> ast.AST:
        for field in ("body", "orelse", "finalbody"):
            kept = getattr(node, field, None)
            if isinstance(kept, list):
                setattr(node, field, [step for step in kept if not _is_text(step)])
        if isinstance(node, ast.List | ast.Tuple | ast.Set | ast.Dict) and _is_literal(node):
            return ast.Constant(type(node).__name__)
        if isinstance(node, ast.alias):
            node.asname = None
        for field in ("id", "arg", "name"):
            if isinstance(named := getattr(node, field, None), str):
                setattr(node, field, self._name(named))
        if isinstance(node, ast.Constant):
            return ast.Constant(type(node.value).__name__)
        return self.generic_visit(node)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_literal(node: ast.AST) -> bool:
    if isinstance(node, ast.Dict):
        return all(key is not None and _is_literal(key) for key in node.keys) and all(map(_is_literal, node.values))
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return all(map(_is_literal, node.elts))
    if isinstance(node, ast.UnaryOp):
        return _is_literal(node.operand)
    return isinstance(node, ast.Constant)


def wording(task: Task) -> str:
    """The words of a task's instruction and contract, with names and numbers as blanks."""
    contract = task.contract
    names = {_stem(word) for word in _words(task.card.domain)}
    for path, data in task.workspace.files.items():
        names |= {_stem(word) for word in _words(f"{path} {data.decode('utf-8', 'replace')}")}
    for item in contract.deliverables:
        names |= {_stem(word) for word in _words(" ".join((item.path, *item.fields)))}
    lines = [task.instruction, *(f"{decision.name}: {decision.rule}" for decision in contract.decisions)]
    lines += [" ".join((item.form, *item.fields.values())) for item in contract.deliverables]
    return "\n".join(
        " ".join("_" if word.isdigit() or _stem(word) in names else word for word in _words(line)) for line in lines
    )


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _stem(word: str) -> str:
    """A word without its plural."""
    return word[:-1] if len(word) > 3 and word.endswith("s") else word
