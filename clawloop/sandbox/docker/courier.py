"""What runs inside a box to carry files in and out of it: the rules of `workspace.Tree`, where the files are.

It runs as the agent, from a read-only system, when nothing else runs. A request is a line of JSON and the data of its
files; an answer is lines of JSON, each followed by the data of which it gives the size.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from clawloop.sandbox.workspace import Tree, remove_tree
from clawloop.types import Limits

_SCRATCH = ("/tmp", "/dev/shm")


def serve(
    given: BinaryIO, answer: BinaryIO, root: Path = Path("/workspace"), scratch: tuple[str, ...] = _SCRATCH
) -> None:
    """Do what the request asks, and answer."""
    request = json.loads(given.readline())
    tree = Tree(root, None, Limits(**request["limits"]))
    tree.reopen()
    try:
        for line, data in _done(request, given, tree, scratch):
            answer.write(json.dumps({**line, "size": len(data)}).encode() + b"\n" + data)
    except (OSError, ValueError) as error:
        kind = next(kind for kind in (FileNotFoundError, OSError, ValueError) if isinstance(error, kind))
        number = getattr(error, "errno", None)
        words = getattr(error, "strerror", None) or str(error)
        line = {"error": kind.__name__, "number": number, "words": words, "size": 0}
        answer.write(json.dumps(line).encode() + b"\n")
    answer.flush()


def _done(
    request: dict[str, Any], given: BinaryIO, tree: Tree, scratch: tuple[str, ...]
) -> Iterator[tuple[dict[str, Any], bytes]]:
    match request["do"]:
        case "write":
            for path, size in request["files"]:
                tree.write(path, given.read(size))
            yield {"done": True}, b""
        case "read":
            yield {"done": True}, tree.read(request["path"], request["limit"])
        case "snapshot":
            for kind, path, data in tree.entries():
                yield {"kind": kind, "path": path}, data
            yield {"done": True}, b""
        case "fits":
            yield {"done": tree.fits()}, b""
        case "clean":
            for folder in scratch:
                _empty(Path(folder))
            yield {"done": True}, b""


def _empty(folder: Path) -> None:
    with os.scandir(folder) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in found:
        if is_folder:
            remove_tree(folder / name)
        else:
            os.unlink(folder / name)
