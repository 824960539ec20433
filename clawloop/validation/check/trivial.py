"""No attempt without work may pass (paper, 4.2: a task whose tests already pass is discarded)."""

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from clawloop.protocols import Grader
from clawloop.rollout.grade import GraderError
from clawloop.types import Candidate, Deliverable, Finding, Snapshot, Task

_BLANK = {"json": b"{}\n", "csv": b"\n", "text": b"\n"}


class Trivial:
    """Grades attempts that anyone can make without reading the task; each must fail, and none may break the verifier.

    1. The untouched workspace.
    2. Every file to deliver, empty; and again as its form's blank document ({} for JSON, else one newline).
    3. Every such file as a copy of one input, for the `copies` inputs most similar to it: first those with its suffix,
       then those in which more of its field names occur, then by path.

    The attempts are made in memory; only the verifier runs in a box. Deliverables of form `state` have only the first.

    Args:
        grader: runs the verifier.
        copies: how many inputs to try; each costs one grading.
    """

    def __init__(self, grader: Grader, copies: int = 2) -> None:
        self._grader, self._copies = grader, copies

    def __call__(self, candidate: Candidate) -> Finding:
        """Passes where every attempt fails."""
        assert candidate.task is not None
        for name, files in _attempts(candidate.task, self._copies):
            try:
                verdict = self._grader(candidate.task, _snapshot({**candidate.task.workspace.files, **files}))
            except GraderError as error:
                return Finding("trivial", False, f"{name}: {error}")
            if verdict.passed:
                return Finding("trivial", False, f"{name} passes the verifier.")
        return Finding("trivial", True)


def _attempts(task: Task, copies: int) -> Iterator[tuple[str, Mapping[str, bytes]]]:
    yield "an untouched workspace", {}
    wanted = [item for item in task.contract.deliverables if item.form in _BLANK]
    if not wanted:
        return
    yield "an empty deliverable", {item.path: b"" for item in wanted}
    yield "a blank deliverable", {item.path: _BLANK[item.form] for item in wanted}
    ranked = {item.path: _similar(task.workspace.files, item) for item in wanted}
    for rank in range(min(copies, max(map(len, ranked.values())))):
        chosen = {path: inputs[min(rank, len(inputs) - 1)] for path, inputs in ranked.items() if inputs}
        names = ", ".join(sorted(set(chosen.values())))
        yield f"a copy of {names}", {path: task.workspace.files[source] for path, source in chosen.items()}


def _similar(files: Mapping[str, bytes], item: Deliverable) -> list[str]:
    def distance(path: str) -> tuple[bool, int, str]:
        known = sum(name.encode() in files[path] for name in item.fields)
        return PurePosixPath(path).suffix != PurePosixPath(item.path).suffix, -known, path

    return sorted((path for path in files if path != item.path), key=distance)


def _snapshot(files: Mapping[str, bytes]) -> Snapshot:
    above = {str(folder) for path in files for folder in PurePosixPath(path).parents} - {"."}
    return Snapshot(files, tuple(sorted(above)))
