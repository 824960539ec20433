"""From the words of the command line to what `clawloop tasks` does; each command returns its exit code."""

from collections.abc import Sequence
from pathlib import Path

from clawloop.config.ended import ended
from clawloop.config.errors import AskError, ConfigError
from clawloop.protocols import InfrastructureError
from clawloop.rollout.grade import GraderError
from clawloop.store.ledger import LedgerError
from clawloop.store.task_folder import TaskFolderError
from clawloop.tasks import run

_USAGE = (
    "clawloop tasks takes one of: list RUN; show RUN ID [--answer]; export RUN DIR [--admitted]; "
    "check DIR [override ...]; render TASKDIR WORKDIR; grade TASKDIR WORKDIR."
)
_OPTIONS = {"show": "--answer", "export": "--admitted"}


def tasks(words: Sequence[str]) -> tuple[int, str]:
    """Do what the words say.

    Returns:
        The exit code and what is to be said on stderr: 0; 1 where a task was refused, failed, or could not be judged;
        2 with one sentence where the words or what they name are wrong.
    """
    wrong = (AskError, ConfigError, TaskFolderError, LedgerError)
    return ended(lambda: _do(words), wrong, (GraderError, InfrastructureError))


def _do(words: Sequence[str]) -> int:
    command, options = words[0] if words else "", {word for word in words[1:] if word.startswith("--")}
    if unknown := sorted(options - {_OPTIONS.get(command, "")}):
        raise AskError(f"clawloop tasks {command} has no option {unknown[0]}; {_USAGE}")
    named = [word for word in words[1:] if not word.startswith("--")]
    match command, named:
        case "list", [folder]:
            return run.list_tasks(Path(folder))
        case "show", [folder, id]:
            return run.show(Path(folder), id, answer=bool(options))
        case "export", [folder, to]:
            return run.export(Path(folder), Path(to), admitted=bool(options))
    if command not in ("check", "render", "grade"):
        raise AskError(_USAGE)
    from clawloop.tasks import hand  # slow: what builds parts imports all of them

    match command, named:
        case "check", [folder, *overrides]:
            return hand.check(Path(folder), overrides)
        case "render", [folder, to]:
            return hand.render(Path(folder), Path(to))
        case "grade", [folder, work]:
            return hand.grade(Path(folder), Path(work))
    raise AskError(_USAGE)
