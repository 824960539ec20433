"""What was right for the previous task of its kind must be wrong here (paper, 4.2: no trivial solution)."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec

from clawloop.protocols import Grader, Sandboxes
from clawloop.rollout.grade import GraderError
from clawloop.types import Candidate, Finding, Snapshot, Task, Workspace
from clawloop.validation import again
from clawloop.validation.solution import play


@dataclass(frozen=True, slots=True)
class _Item:
    path: str


@dataclass(frozen=True, slots=True)
class _Contract:
    deliverables: tuple[_Item, ...]


@dataclass(frozen=True, slots=True)
class _Other:
    """The parts of another task that a generator printed."""

    files: Mapping[str, str]
    oracle: tuple[str, ...]
    contract: _Contract


class Replay:
    """Solves the generator's tasks of the next seeds with their own oracles, and hands in the results for this one.

    Such a task stands for the last one of this kind that an agent saw; the attempts are what it would remember:

    1. The deliverables, in their order, under the names that this task gives them; a JSON object's values also under
       this task's field names.
    2. All that the other solution changed, put into this workspace as it is.

    None may break the verifier, and not every seed may give one that passes: a small count is the same by chance now
    and then, and that alone says nothing of a task. Seeds are tried up to the first whose attempts all fail. Where a
    seed gives no task there is nothing to remember, and `deterministic` says so.

    Args:
        sandboxes: opens the boxes: one for the generator, one for its oracle.
        grader: runs the verifier.
        command_s: seconds that one command of the oracle may take.
        seeds: how many seeds must give an attempt that passes; at least 1.
    """

    def __init__(self, sandboxes: Sandboxes, grader: Grader, command_s: float = 20.0, seeds: int = 3) -> None:
        if seeds < 1:
            raise ValueError(f"check.replay.seeds must be at least 1, not {seeds}.")
        self._sandboxes, self._grader, self._command_s, self._seeds = sandboxes, grader, command_s, seeds

    def __call__(self, candidate: Candidate) -> Finding:
        """Passes where the attempts of one of the seeds fail."""
        passed = ""
        for seed in range(candidate.generator.seed + 1, candidate.generator.seed + 1 + self._seeds):
            try:
                passed = self._passes(candidate, seed)
            except GraderError as error:
                return Finding("replay", False, f"what solves seed {seed} breaks the verifier: {error}")
            if not passed:
                return Finding("replay", True)
        return Finding("replay", False, f"{passed} of any of the next {self._seeds} seeds pass the verifier.")

    def _passes(self, candidate: Candidate, seed: int) -> str:
        """The first attempt of a seed that passes, or nothing."""
        assert candidate.task is not None
        raw = again.output(candidate.generator, seed, self._sandboxes)
        try:
            other = msgspec.json.decode(raw or b"", type=_Other)
            solved = self._solved(other)
        except (msgspec.MsgspecError, ValueError):
            return ""
        for name, files in _attempts(candidate.task, other, solved):
            if self._grader(candidate.task, Snapshot.of(files)).passed:
                return name
        return ""

    def _solved(self, other: _Other) -> Mapping[str, bytes]:
        """The other task's final files, as far as its oracle came."""
        files = {path: text.encode() for path, text in other.files.items()}
        return play(other.oracle, Workspace(files), self._sandboxes, self._command_s)[0].files


def _attempts(task: Task, other: _Other, solved: Mapping[str, bytes]) -> Iterator[tuple[str, Mapping[str, bytes]]]:
    inputs = task.workspace.files
    pairs = list(zip(task.contract.deliverables, other.contract.deliverables, strict=False))
    handed = {mine.path: solved[theirs.path] for mine, theirs in pairs if theirs.path in solved}
    if handed:
        yield "the deliverables", {**inputs, **handed}
        named = {mine.path: _renamed(handed[mine.path], tuple(mine.fields)) for mine, _ in pairs if mine.path in handed}
        if named != handed:
            yield "the values", {**inputs, **named}
    kept = {path: data for path, data in inputs.items() if path in solved or path not in other.files}
    changed = {path: data for path, data in solved.items() if other.files.get(path, "").encode() != data}
    yield "the final workspace", {**kept, **changed}


def _renamed(data: bytes, names: tuple[str, ...]) -> bytes:
    """A JSON object with the same values in their order under other names; anything else as it is."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return data
    if not isinstance(value, dict) or len(value) != len(names):
        return data
    return json.dumps(dict(zip(names, value.values(), strict=True))).encode()
