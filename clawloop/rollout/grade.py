"""Grading: a task's verifier over a copy of the final workspace, in a box of its own."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePosixPath

from clawloop.protocols import Sandbox, Sandboxes
from clawloop.types import CommandResult, FieldResult, Limits, Snapshot, Task, Verdict, Workspace

_COMMAND = ("python3", "-I", "-S", "-B", "verify.py")
_ROOM, _ROOM_FILES, _PAGE = 16 << 20, 1024, 4096  # what the verifier may write itself; a file's unit on disk
_AT_ONCE = 100


class GraderError(Exception):
    """A verifier broke: it crashed, was stopped, or printed no verdict. It says nothing about the agent."""


class SandboxGrader:
    """Runs verifiers in fresh boxes, after the agent's box is dead (`protocols.Grader`).

    The verifier's folder holds verify.py, key.json, refused.json (path to reason, of what is not a regular file
    within the limits), directories.json (all folders) and work/, the copy. No file of the agent can be imported:
    `-I` keeps the script's folder, the user's site-packages and PYTHONPATH out, `-S` all .pth files.

    Args:
        sandboxes: opens the box.
        limits: of the box; its workspace is enlarged to hold the copy.
        file_size: bytes above which a file is refused as too_large.
    """

    def __init__(self, sandboxes: Sandboxes, limits: Limits | None = None, file_size: int = 16 << 20) -> None:
        self._sandboxes = sandboxes
        self._limits = limits or Limits()
        self._file_size = file_size

    def __call__(self, task: Task, snapshot: Snapshot) -> Verdict:
        """Grade a final workspace.

        Raises:
            GraderError: the verifier gave no verdict.
            InfrastructureError: the box broke.
        """
        refused = dict(snapshot.refused)
        taken = {}
        for path, data in snapshot.files.items():
            if len(data) > self._file_size:
                refused[path] = "too_large"
            elif path not in refused:
                taken[path] = data
        folder = {
            "verify.py": task.verifier.program.encode(),
            "key.json": task.verifier.key.encode(),
            "refused.json": json.dumps(refused, sort_keys=True).encode(),
            "directories.json": json.dumps(sorted(snapshot.directories)).encode(),
            **{f"work/{path}": data for path, data in taken.items()},
        }
        with self._sandboxes.open(Workspace(folder), _with_room(self._limits, folder, snapshot)) as box:
            _make_folders(box, [f"work/{path}" for path in _empty(snapshot, taken)] or ([] if taken else ["work"]))
            result = box.run(_COMMAND, timeout_s=task.verifier.timeout_s)
        return _verdict(result, task.id)


def _with_room(limits: Limits, folder: Mapping[str, bytes], snapshot: Snapshot) -> Limits:
    entries = len(folder) + len(snapshot.directories) + _ROOM_FILES
    size = sum(len(data) for data in folder.values()) + entries * _PAGE + _ROOM
    return replace(limits, workspace=max(limits.workspace, size), workspace_files=max(limits.workspace_files, entries))


def _empty(snapshot: Snapshot, taken: dict[str, bytes]) -> list[str]:
    """The folders that no copied file brings with it."""
    brought = {str(folder) for path in taken for folder in PurePosixPath(path).parents}
    return [path for path in snapshot.directories if path not in brought]


def _make_folders(box: Sandbox, folders: list[str]) -> None:
    for start in range(0, len(folders), _AT_ONCE):
        result = box.run(["mkdir", "-p", "--", *folders[start : start + _AT_ONCE]])
        if result.exit_code != 0:
            raise GraderError(f"the copy of the workspace could not be made: {_last_line(result.stderr)}")


def _verdict(result: CommandResult, task_id: str) -> Verdict:
    """The printed object {"fields": {name: null | "reason"}}; a pass has fields, all null."""
    said = _last_line(result.stderr)
    if result.exit_code != 0:
        how = f"was stopped ({result.stopped})" if result.stopped else f"ended with code {result.exit_code}"
        raise GraderError(f"the verifier of {task_id} {how}: {said}")
    try:
        printed = json.loads(result.stdout.decode(), object_pairs_hook=_unique, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise GraderError(f"the verifier of {task_id} printed no JSON object ({str(error)[:100]}): {said}") from error
    fields = printed.get("fields") if isinstance(printed, dict) and set(printed) == {"fields"} else None
    if not isinstance(fields, dict) or not all(reason is None or _is_reason(reason) for reason in fields.values()):
        raise GraderError(f'the verifier of {task_id} must print {{"fields": {{name: null or a reason}}}}: {said}')
    results = tuple(FieldResult(name, reason is None, reason or "") for name, reason in fields.items())
    return Verdict(bool(results) and all(field.passed for field in results), results)


def _is_reason(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name appears twice")
    return found


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is no JSON")


def _last_line(text: bytes) -> str:
    lines = text.decode("utf-8", "backslashreplace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "nothing on stderr")[:300]
