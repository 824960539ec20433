"""The tasks of a run: listed, shown and written into folders."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clawloop.config.errors import AskError
from clawloop.report.fates import fates
from clawloop.store import task_folder
from clawloop.store.layout import Layout
from clawloop.store.ledger import Ledger
from clawloop.tasks.words import line, page


def list_tasks(folder: Path) -> int:
    """One line a candidate."""
    with _opened(folder) as ledger:
        for fate in fates(ledger):
            print(line(fate))
    return 0


def show(folder: Path, id: str, *, answer: bool) -> int:
    """One candidate as a person reads it; the key, the oracle and the verifier only with `answer`.

    Raises:
        AskError: the run has no such candidate.
    """
    with _opened(folder) as ledger:
        known: list[str] = []
        for fate in fates(ledger):
            if fate.candidate.id == id:
                print(page(fate, answer=answer))
                return 0
            known.append(fate.candidate.id)
    has = f"it has {known[0]} to {known[-1]}" if known else "it has none yet"
    raise AskError(f"{folder} has no task {id:.60}; {has}, which `clawloop tasks list {folder}` shows.")


def export(folder: Path, to: Path, *, admitted: bool) -> int:
    """Write the candidates that have a task, or the admitted ones alone, into folders below `to`.

    Raises:
        TaskFolderError: a folder is there already.
    """
    with _opened(folder) as ledger:
        chosen = [fate for fate in fates(ledger) if fate.outcome == "admitted" or not admitted]
    written = [fate.candidate for fate in chosen if fate.candidate.task is not None]
    for candidate in written:
        task_folder.write(candidate, to / candidate.id)
    without = len(chosen) - len(written)
    print(f"{len(written)} tasks in {to}" + (f"; {without} candidates have none" if without else ""))
    return 0


@contextmanager
def _opened(folder: Path) -> Iterator[Ledger]:
    """The ledger of a run, which must be there."""
    path = Layout(folder).ledger
    if not path.is_file():
        raise AskError(f"{folder} has no {path.name}; name the folder of a run, such as outputs/main/<date_time>.")
    ledger = Ledger(path)
    try:
        yield ledger
    finally:
        ledger.close()
