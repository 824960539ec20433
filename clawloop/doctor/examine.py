"""Whether a sandbox holds: each attempt is made outside, where it must succeed, and in a box, where it must not."""

import errno
import os
import secrets
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from clawloop.doctor.attempts import MARK, Attempt
from clawloop.protocols import InfrastructureError, Sandboxes
from clawloop.types import Workspace

_TIMEOUT_S = 20.0
_THROUGH = b"through"


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of one attempt: `verdict` is held, not held, or cannot tell."""

    holds: str
    verdict: str
    words: str = ""


@dataclass(frozen=True, slots=True)
class Bait:
    """What the doctor puts in reach outside: a folder with a file, a listener, a mark in the environment."""

    folder: Path
    port: int
    mark: str

    def program(self, attempt: Attempt, pid: int, *, inside: bool) -> str:
        """The attempt with its values in place. Outside it writes into the doctor's folder alone."""
        values = {
            "folder": str(self.folder),
            "port": self.port,
            "mark": self.mark,
            "pid": pid,
            "places": ["/", "/etc", "/usr", "/var", "/run", "/dev"] if inside else [],
            "here": "." if inside else str(self.folder),
        }
        return "".join(f"{name} = {value!r}\n" for name, value in values.items()) + attempt.program


@contextmanager
def bait() -> Iterator[Bait]:
    """Lay it out, and take it away."""
    mark = secrets.token_hex(16)
    with (
        tempfile.TemporaryDirectory(prefix="clawloop-doctor-") as folder,
        socket.create_server(("127.0.0.1", 0)) as one,
    ):
        (Path(folder) / "secret").write_bytes(_THROUGH)
        yield Bait(Path(folder), one.getsockname()[1], mark)


def examine(sandboxes: Sandboxes, laid: Bait, attempts: tuple[Attempt, ...]) -> Iterator[Finding]:
    """Make each attempt twice.

    Raises:
        InfrastructureError: the sandbox broke.
    """
    with _witness(laid) as pid:
        for attempt in attempts:
            yield _tried(sandboxes, laid, attempt, pid)


@contextmanager
def _witness(laid: Bait) -> Iterator[int]:
    """A process of the host that carries the mark, for boxes to look for."""
    process = subprocess.Popen(["sleep", "600"], env={**os.environ, MARK: laid.mark})
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def _tried(sandboxes: Sandboxes, laid: Bait, attempt: Attempt, pid: int) -> Finding:
    outside = subprocess.run(
        [sys.executable, "-I", "-c", laid.program(attempt, pid, inside=False)],
        capture_output=True,
        check=False,
        timeout=_TIMEOUT_S,
        cwd=laid.folder,
        env={**os.environ, MARK: laid.mark},
    )
    program = laid.program(attempt, pid, inside=True)
    with sandboxes.open(Workspace(), attempt.limits) as box:
        alive = box.run(["python3", "-I", "-c", "print('alive')"], timeout_s=_TIMEOUT_S)
        inside = box.run(["python3", "-I", "-c", program])
    if alive.stdout != b"alive\n":
        raise InfrastructureError(f"a box runs no Python: {alive.stderr.decode('utf-8', 'backslashreplace')[:200]}")
    return verdict(attempt, outside.stdout, outside.stderr, inside.stdout, inside.stderr, inside.stopped)


def verdict(attempt: Attempt, out: bytes, outer_error: bytes, said: bytes, inner_error: bytes, stopped: str) -> Finding:
    """What two tries come to: what was printed outside, and what was printed, and stopped, inside."""
    if _THROUGH in said and not (stopped and stopped == attempt.stops):
        return Finding(attempt.holds, "not held", attempt.cure)
    if _THROUGH in out:
        return Finding(attempt.holds, "held")
    refused = f"[Errno {errno.EPERM}]".encode()
    if refused in inner_error and refused not in outer_error:
        return Finding(attempt.holds, "held", "refused before the kernel could say that it has none")
    return Finding(attempt.holds, "cannot tell", "the same attempt fails outside too, so this shows nothing")
