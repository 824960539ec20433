"""No attempt without work may pass (paper, 4.2: a task whose tests already pass is discarded)."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from clawloop.protocols import Grader
from clawloop.rollout.grade import GraderError
from clawloop.types import Candidate, Deliverable, Finding, Snapshot, Task

_BLANK = {"json": b"{}\n", "csv": b"\n", "text": b"\n"}
_CELL = re.compile(r"[^\s,;|\"{}\[\]]+")
_NUMBER = re.compile(r"-?\d{1,15}(?:\.\d{1,15})?")
_NUMERIC = ("int", "num", "float", "decimal")  # how the types of numbers begin


class Trivial:
    """Grades attempts that anyone can make without reading the task; each must fail, and none may break the verifier.

    1. The untouched workspace, and an emptied one.
    2. Every file to deliver, empty; and again as its form's blank document ({} for JSON, else one newline).
    3. Every field a constant: 0, 1, an empty list, and the commonest number or word of the inputs, as its type asks.
    4. Every such file as a copy of one input, for the `copies` inputs most similar to it: first those with its suffix,
       then those in which more of its field names occur, then by path.

    The attempts are made in memory; only the verifier runs in a box. Deliverables of form `state` have only the first.
    What was answered to another task of the same generator is tried by `replay`.

    Args:
        grader: runs the verifier.
        copies: how many inputs to try; each costs one grading.
    """

    def __init__(self, grader: Grader, copies: int = 2) -> None:
        self._grader, self._copies = grader, copies

    def __call__(self, candidate: Candidate) -> Finding:
        """Passes where every attempt fails."""
        assert candidate.task is not None
        tried: list[Mapping[str, bytes]] = []
        for name, files in _attempts(candidate.task, self._copies):
            if files in tried:
                continue
            tried.append(files)
            try:
                verdict = self._grader(candidate.task, Snapshot.of(files))
            except GraderError as error:
                return Finding("trivial", False, f"{name}: {error}")
            if verdict.passed:
                return Finding("trivial", False, f"{name} passes the verifier.")
        return Finding("trivial", True)


def _attempts(task: Task, copies: int) -> Iterator[tuple[str, Mapping[str, bytes]]]:
    inputs = task.workspace.files
    yield "an untouched workspace", inputs
    yield "an emptied workspace", {}
    wanted = [item for item in task.contract.deliverables if item.form in _BLANK]
    if not wanted:
        return
    yield "an empty deliverable", {**inputs, **{item.path: b"" for item in wanted}}
    yield "a blank deliverable", {**inputs, **{item.path: _BLANK[item.form] for item in wanted}}
    for name, values in _constants(inputs):
        yield f"{name} everywhere", {**inputs, **{item.path: _filled(item, values) for item in wanted}}
    ranked = {item.path: _similar(inputs, item) for item in wanted}
    for rank in range(min(copies, max(map(len, ranked.values())))):
        chosen = {path: sources[min(rank, len(sources) - 1)] for path, sources in ranked.items() if sources}
        names = ", ".join(sorted(set(chosen.values())))
        yield f"a copy of {names}", {**inputs, **{path: inputs[source] for path, source in chosen.items()}}


def _constants(inputs: Mapping[str, bytes]) -> Iterator[tuple[str, tuple[object, object]]]:
    """What a field may be filled with: a name, a value for a number and one for anything else."""
    for name, value in (("0", 0), ("1", 1), ("an empty list", [])):
        yield name, (value, value)
    cells = Counter(
        cell for _, data in sorted(inputs.items()) for cell in _CELL.findall(data.decode("utf-8", "replace"))
    )
    numbers = [cell for cell in cells if _NUMBER.fullmatch(cell)]
    words = [cell for cell in cells if not _NUMBER.fullmatch(cell)]
    if numbers or words:
        number, word = (max(known, key=lambda cell: cells[cell], default="0") for known in (numbers, words))
        yield f"the commonest of the inputs ({number}, {word:.40})", (json.loads(_plain(number)), word)


def _plain(number: str) -> str:
    """A number without the zeros in front that JSON does not have."""
    return re.sub(r"^(-?)0+(?=\d)", r"\1", number)


def _filled(item: Deliverable, values: Sequence[object]) -> bytes:
    """The document whose fields all hold a constant; a csv or a text has its values one a line."""
    fields = {name: values[not kind.casefold().startswith(_NUMERIC)] for name, kind in item.fields.items()}
    if item.form == "json":
        return json.dumps(fields).encode()
    lines = ["" if value == [] else str(value) for value in fields.values()]
    return ("\n".join(lines) + "\n").encode()


def _similar(files: Mapping[str, bytes], item: Deliverable) -> list[str]:
    def distance(path: str) -> tuple[bool, int, str]:
        known = sum(name.encode() in files[path] for name in item.fields)
        return PurePosixPath(path).suffix != PurePosixPath(item.path).suffix, -known, path

    return sorted((path for path in files if path != item.path), key=distance)
