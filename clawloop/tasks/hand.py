"""Tasks in folders: checked, laid out to be tried by hand, and graded."""

import json
from collections.abc import Sequence
from pathlib import Path

from clawloop.build.part import part, parts
from clawloop.config.composed import composed
from clawloop.config.errors import AskError
from clawloop.harness.shell.shell import opening
from clawloop.protocols import Sandboxes
from clawloop.report.printable import printable
from clawloop.rollout.grade import SandboxGrader
from clawloop.sandbox.workspace import Tree
from clawloop.store import task_folder
from clawloop.types import Candidate, Limits
from clawloop.validation.screen import Screen

_WORKSPACE, _INSTRUCTION, _ENVIRONMENT = "workspace", "instruction.md", "environment.json"


def check(folder: Path, overrides: Sequence[str]) -> int:
    """Screen the tasks of a folder with the checks of conf/, and say what each check said.

    Returns:
        1 where a task is refused, else 0.

    Raises:
        AskError: a workspace cannot be laid out.
    """
    candidates = tuple(task_folder.read(one) for one in task_folder.folders(folder))
    config = composed(overrides)
    sandboxes: Sandboxes = part(config["sandbox"])
    checks = parts(config["check"], sandboxes=sandboxes, grader=SandboxGrader(sandboxes))
    for candidate in candidates:
        _fits(candidate, sandboxes)
    screening = Screen(checks)(candidates, 0)
    for candidate in candidates:
        refused = [found for found in screening.findings[candidate.id] if not found.passed]
        reason = "; ".join(f"{found.check}: {found.reason}" for found in refused)
        print(printable(f"{candidate.id}  {'refused by ' + reason if refused else 'sound'}"))
    print(f"{len(screening.tasks)} of {len(candidates)} tasks pass {', '.join(config['check'])}")
    return int(len(screening.tasks) < len(candidates))


def _fits(candidate: Candidate, sandboxes: Sandboxes) -> None:
    """Lay the workspace out once, so that a path, a variable or a size that no box takes is named in a sentence."""
    assert candidate.task is not None
    try:
        with sandboxes.open(candidate.task.workspace):
            return
    except ValueError as error:
        raise AskError(f"the workspace of {candidate.id} cannot be laid out: {error}") from error


def render(folder: Path, to: Path) -> int:
    """Lay out what an agent is shown: the workspace, the instruction with its contract, and the environment if any.

    Raises:
        AskError: the folder to work in is not empty.
    """
    candidate = task_folder.read(folder)
    assert candidate.task is not None
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise AskError(f"{to} is not empty; name a new folder to work in.")
    task = candidate.task
    shown = {_INSTRUCTION: (opening(task.assignment)[1].content.strip() + "\n").encode()}
    if task.workspace.environment:
        shown[_ENVIRONMENT] = (json.dumps(dict(task.workspace.environment), indent=2) + "\n").encode()
    task_folder.put_files(shown, to)
    task_folder.put_files(task.workspace.files, to / _WORKSPACE)
    print(f"{to / _INSTRUCTION} says what to do in {to / _WORKSPACE}")
    return 0


def grade(folder: Path, work: Path) -> int:
    """Grade what was done in a folder that `render` laid out, in a sandbox, and print the verdict field by field.

    Returns:
        1 where the verifier does not pass, else 0.

    Raises:
        AskError: there is no such workspace.
        GraderError: the verifier broke.
    """
    candidate = task_folder.read(folder)
    assert candidate.task is not None
    root = work / _WORKSPACE
    if not root.is_dir():
        raise AskError(f"{root} is not there; name a folder that `clawloop tasks render` laid out.")
    sandboxes: Sandboxes = part(composed()["sandbox"])
    verdict = SandboxGrader(sandboxes)(candidate.task, Tree(root, None, Limits()).snapshot())
    for field in verdict.fields:
        print(
            printable(f"{'right' if field.passed else 'wrong'}  {field.name}{': ' * bool(field.reason)}{field.reason}")
        )
    print("passed" if verdict.passed else "not passed")
    return int(not verdict.passed)
