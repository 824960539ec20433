"""A candidate as a folder that people can read, edit, keep in git and share; docs/tasks.md describes it.

Texts and bytes lie in files of their own, and what is left of the candidate in task.json. Nothing is lost on the way.
"""

import json
import os
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from clawloop.types import Candidate

FORMAT = 1
MANIFEST = "task.json"
_INSTRUCTION, _CONTRACT, _GENERATOR, _ANSWER = "instruction.md", "contract.json", "generator.py", "answer.json"
_VERIFIER, _KEY, _ORACLE, _WORKSPACE = "verifier/verify.py", "verifier/key.json", "oracle", "workspace"


class TaskFolderError(ValueError):
    """A folder holds no task; the message says where it is wrong and what to do."""


def write(candidate: Candidate, folder: Path) -> None:
    """Write a candidate that has a task into a new folder; the folders above it are made.

    Raises:
        TaskFolderError: the candidate has no task, its task has another id or card, or the folder is there already.
    """
    task = candidate.task
    if task is None:
        raise TaskFolderError(f"{candidate.id} has no task to write: its generator failed.")
    if (task.id, task.card) != (candidate.id, candidate.card):
        raise TaskFolderError(f"the task of {candidate.id} must have the candidate's id and card.")
    data = _builtins(candidate)
    inner = data.pop("task")
    texts = {
        _INSTRUCTION: task.instruction,
        _CONTRACT: _json(inner["contract"]),
        _VERIFIER: inner["verifier"].pop("program"),
        _KEY: inner["verifier"].pop("key"),
        _GENERATOR: data["generator"].pop("program"),
        _ANSWER: data.pop("answer"),
        **{f"{_ORACLE}/{i:04d}.sh": command for i, command in enumerate(data.pop("oracle"), start=1)},
    }
    texts[MANIFEST] = _json(
        {"format": FORMAT, **data, "verifier": inner["verifier"], "environment": dict(task.workspace.environment)}
    )
    try:
        folder.mkdir(parents=True)
    except FileExistsError as error:
        raise TaskFolderError(f"{folder} is there already; name another folder, or remove it first.") from error
    put_files({path: text.encode() for path, text in texts.items()}, folder)
    put_files(task.workspace.files, folder / _WORKSPACE)


def read(folder: Path) -> Candidate:
    """The candidate of a folder.

    Raises:
        TaskFolderError: a part is missing, cannot be read, is a link, or says what no task says.
    """
    manifest = _object(folder, MANIFEST)
    if (seen := manifest.pop("format", None)) != FORMAT:
        raise TaskFolderError(f"{folder / MANIFEST} has format {seen!r:.60} and this version reads {FORMAT}.")
    verifier, generator, environment = (
        _inner(folder / MANIFEST, manifest.pop(name, None), name) for name in ("verifier", "generator", "environment")
    )
    data = {
        **manifest,
        "generator": {**generator, "program": _text(folder, _GENERATOR)},
        "oracle": [_text(folder, path) for path in _below(folder, _ORACLE)],
        "answer": _strict(folder, _ANSWER),
        "task": {
            "id": manifest.get("id"),
            "card": manifest.get("card"),
            "instruction": _text(folder, _INSTRUCTION),
            "contract": _object(folder, _CONTRACT),
            "workspace": {"files": _files(folder), "environment": environment},
            "verifier": {**verifier, "program": _text(folder, _VERIFIER), "key": _strict(folder, _KEY)},
        },
    }
    try:
        candidate = msgspec.convert(data, Candidate, builtin_types=(bytes,))
    except msgspec.ValidationError as error:
        raise TaskFolderError(f"{folder} holds no task: {str(error)[:1].lower()}{str(error)[1:]}.") from error
    if unknown := next(_unknown(data, _builtins(candidate)), None):
        raise TaskFolderError(f"{folder} has an unknown key {unknown!r:.60}; correct it or leave it out.")
    return candidate


def folders(root: Path) -> tuple[Path, ...]:
    """The task folders directly in `root`, by name; `root` itself where it is one.

    Raises:
        TaskFolderError: there is none.
    """
    if (root / MANIFEST).is_file():
        return (root,)
    found = tuple(sorted(path.parent for path in root.glob(f"*/{MANIFEST}")))
    if not found:
        raise TaskFolderError(f"{root} holds no tasks; name a folder that `clawloop tasks export` wrote.")
    return found


def put_files(files: Mapping[str, bytes], root: Path) -> None:
    """Write files by their relative paths below `root`, which is made."""
    root.mkdir(parents=True, exist_ok=True)
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)


def _builtins(candidate: Candidate) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(candidate, builtin_types=(bytes,))
    return found


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _bytes(folder: Path, path: str) -> bytes:
    """A file below the folder. A link could lead out of it, and is refused."""
    parts = path.split("/")
    if any(folder.joinpath(*parts[:depth]).is_symlink() for depth in range(1, len(parts) + 1)):
        raise TaskFolderError(f"{folder / path} is a link; put the file itself there.")
    if not (folder / path).is_file():
        raise TaskFolderError(f"{folder / path} is not there, or is no file; a task has that file.")
    return (folder / path).read_bytes()


def _text(folder: Path, path: str) -> str:
    try:
        text = _bytes(folder, path).decode()
    except UnicodeDecodeError as error:
        raise TaskFolderError(f"{folder / path} is not UTF-8; save it as that.") from error
    if "\0" in text:
        raise TaskFolderError(f"{folder / path} holds a NUL, which no text of a task may; take it out.")
    return text


def _strict(folder: Path, path: str) -> str:
    """The text of a JSON object, as it is."""
    text = _text(folder, path)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TaskFolderError(f"{folder / path} is no JSON: {error}.") from error
    _inner(folder / path, value, "the whole")
    return text


def _object(folder: Path, path: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_strict(folder, path))
    return found


def _inner(place: Path, value: object, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TaskFolderError(f"{place}: {name} must be a JSON object.")
    return value


def _files(folder: Path) -> dict[str, bytes]:
    return {path.removeprefix(f"{_WORKSPACE}/"): _bytes(folder, path) for path in _below(folder, _WORKSPACE)}


def _below(folder: Path, name: str) -> list[str]:
    """All that is no folder below a part of the task, by its path there; empty folders are nothing."""
    if (folder / name).is_symlink():
        raise TaskFolderError(f"{folder / name} is a link; put the folder itself there.")
    found = []
    for above, inner, names in os.walk(folder / name):
        links = [part for part in inner if Path(above, part).is_symlink()]
        found += [Path(above, part).relative_to(folder).as_posix() for part in (*names, *links)]
    for path in found:
        if any(unicodedata.category(char) in ("Cc", "Cs") for char in path):
            raise TaskFolderError(
                f"{folder} has a file named {path!a:.200}; a name is UTF-8 without control characters."
            )
    return sorted(found)


def _unknown(given: object, kept: object, at: str = "") -> Iterator[str]:
    """The keys of what was given that were not kept."""
    if isinstance(given, dict) and isinstance(kept, dict):
        for key, value in given.items():
            name = f"{at}.{key}" if at else str(key)
            if key in kept:
                yield from _unknown(value, kept[key], name)
            else:
                yield name
    elif isinstance(given, list) and isinstance(kept, list | tuple):
        for index, (value, other) in enumerate(zip(given, kept, strict=True)):
            yield from _unknown(value, other, f"{at}[{index}]")
