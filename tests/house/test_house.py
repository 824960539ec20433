"""The rules of the house that a program can see."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "clawloop").rglob("*.py"))
LIGHT = ("clawloop.types", "clawloop.protocols", "clawloop.loop")
HEAVY = {"torch", "lightning", "transformers", "hydra", "omegaconf", "wandb"}


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def test_there_are_modules() -> None:
    assert len(MODULES) > 40


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_a_module_has_a_docstring_and_at_most_300_lines(path: Path) -> None:
    assert ast.get_docstring(_parsed(path)), "no docstring"
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 300


@pytest.mark.parametrize("path", [path for path in MODULES if path.name == "__init__.py"], ids=_name)
def test_a_package_imports_nothing_of_its_own(path: Path) -> None:
    """Its `__init__` is a docstring; only that of the nouns hands them on, and that of clawloop holds the version."""
    body = _parsed(path).body[1:]
    if path.parent.name == "types":
        body = [node for node in body if not isinstance(node, ast.ImportFrom)]
    assert all(isinstance(node, ast.Assign) and re.match(r"__\w+__ = ", ast.unparse(node)) for node in body)


def test_exceptions_are_caught_by_name_outside_the_command_line() -> None:
    broad = [
        f"{_name(path)}:{node.lineno}"
        for path in MODULES
        for node in ast.walk(_parsed(path))
        if isinstance(node, ast.ExceptHandler) and (node.type is None or ast.unparse(node.type) == "Exception")
    ]
    assert [place.partition(":")[0] for place in broad] == ["clawloop/cli.py"] * 2


def test_no_handler_swallows_what_it_caught() -> None:
    silent = [
        f"{_name(path)}:{node.lineno}"
        for path in MODULES
        for node in ast.walk(_parsed(path))
        if isinstance(node, ast.ExceptHandler) and all(isinstance(step, ast.Pass) for step in node.body)
    ]
    assert not silent


def test_programs_are_parsed_in_one_place() -> None:
    """Two threads that parse at once break each other, and only one lock can keep them apart."""
    used = [path for path in MODULES if re.search(r"\bast\.parse\(", path.read_text(encoding="utf-8"))]
    assert list(map(_name, used)) == ["clawloop/sandbox/lint.py"]


def test_nothing_is_left_for_later() -> None:
    word = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")
    assert not [_name(path) for path in MODULES if word.search(path.read_text(encoding="utf-8"))]


def test_prompts_are_files() -> None:
    """No module holds a long text that speaks to an agent. Docstrings and programs that run are no prompts."""
    found = []
    for path in MODULES:
        tree = _parsed(path)
        docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        found += [
            f"{_name(path)}:{node.lineno}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in docs
            and re.search(r"\b(You are an?|Your task is|You must|Answer with)\b", node.value)
        ]
    assert not found


def test_the_floors_hold() -> None:
    program = "from importlinter.cli import lint_imports_command as run; run(['--no-cache', '--no-logo'])"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


@pytest.mark.parametrize("module", LIGHT)
def test_the_light_modules_reach_nothing_heavy(module: str) -> None:
    program = f"import sys, {module}; print(sorted({HEAVY!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
