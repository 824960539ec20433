"""The files of a box, seen from outside: requests to a courier that runs inside (courier.py)."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from typing import Any

from clawloop.protocols import InfrastructureError
from clawloop.sandbox.docker.container import Container
from clawloop.sandbox.docker.execute import execute
from clawloop.sandbox.workspace import check_path, gather
from clawloop.types import Limits, Snapshot

_TIMEOUT_S = 120.0
_MODULES = {  # what the courier is made of; the first stands for the whole of clawloop.types
    "clawloop.types": ("clawloop.types", "sandbox.py"),
    "clawloop.sandbox.workspace": ("clawloop.sandbox", "workspace.py"),
    "clawloop.sandbox.docker.courier": ("clawloop.sandbox.docker", "courier.py"),
}
_BOOT = """
import sys, types
for name, text in MODULES.items():
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(text, name, "exec"), module.__dict__)
module.serve(sys.stdin.buffer, sys.stdout.buffer)
"""
_ERRORS = {"FileNotFoundError": FileNotFoundError, "OSError": OSError, "ValueError": ValueError}
_MARGIN = 1 << 20


class Files:
    """Moves files in and out of the workspace of a container (the rules are those of `workspace.Tree`)."""

    def __init__(self, container: Container, limits: Limits) -> None:
        self._container = container
        self._limits = limits

    def write(self, contents: Mapping[str, bytes]) -> None:
        """Put files in place, with their folders; see `Tree.write`."""
        for path in contents:
            check_path(path)
        if contents:
            sizes = [[path, len(data)] for path, data in contents.items()]
            self._ask({"do": "write", "files": sizes}, b"".join(contents.values()))

    def read(self, path: str, limit: int) -> bytes:
        """The contents of a regular file; see `Tree.read`."""
        check_path(path)
        [(_, data)] = self._ask({"do": "read", "path": path, "limit": limit}, room=limit)
        return data

    def snapshot(self) -> Snapshot:
        """All that the workspace holds; see `Tree.snapshot`."""
        answers = self._ask({"do": "snapshot"}, room=self._limits.workspace + 4096 * self._limits.workspace_files)
        return gather((line["kind"], line["path"], data) for line, data in answers[:-1])

    def fits(self) -> bool:
        """Whether the workspace is within its limits; see `Tree.fits`."""
        [(line, _)] = self._ask({"do": "fits"})
        return bool(line["done"])

    def clean(self) -> None:
        """Empty /tmp and /dev/shm."""
        self._ask({"do": "clean"})

    def _ask(self, request: dict[str, Any], data: bytes = b"", room: int = 0) -> list[tuple[dict[str, Any], bytes]]:
        """The courier's answers.

        Raises:
            InfrastructureError: it gave none.
            OSError, ValueError: it said so.
        """
        line = json.dumps({**request, "limits": asdict(self._limits)}).encode() + b"\n"
        command = ["/usr/bin/python3", "-I", "-S", "-B", "-c", _program()]
        ended = execute(
            self._container, command, environment={}, timeout_s=_TIMEOUT_S, output=room + _MARGIN, given=line + data
        )
        answers = list(_answers(ended.stdout))
        if ended.exit_code != 0 or not answers or not answers[-1][0].keys() & {"done", "error"}:
            words = ended.stderr.decode("utf-8", "backslashreplace").strip().rpartition("\n")[2]
            how = ended.stopped or f"code {ended.exit_code}"
            raise InfrastructureError(f"files could not be moved in or out of a box ({how}): {words[:300]}")
        last = answers[-1][0]
        if "error" in last:
            kind = _ERRORS[last["error"]]
            raise kind(last["words"]) if kind is ValueError else kind(last["number"], last["words"])
        return answers


def _answers(data: bytes) -> Iterator[tuple[dict[str, Any], bytes]]:
    start = 0
    while (end := data.find(b"\n", start)) >= 0:
        line = json.loads(data[start:end])
        start = end + 1 + line["size"]
        if start > len(data):
            return
        yield line, data[end + 1 : start]


@cache
def _program() -> str:
    texts = {name: (files(package) / file).read_text(encoding="utf-8") for name, (package, file) in _MODULES.items()}
    return f"MODULES = {texts!r}{_BOOT}"
