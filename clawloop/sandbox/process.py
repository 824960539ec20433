"""One bubblewrap process from start to end, with a deadline and a bound on what it prints."""

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from clawloop.protocols import InfrastructureError

FLOOD = 16
"""A box is stopped at so many times the output that is kept."""
GRACE_S = 10.0
"""How long a killed box may take to be dead."""
_PIECE = 1 << 16


@dataclass(frozen=True, slots=True)
class Ended:
    """How it went. `exit_code` is the command's, and None where the box was stopped or broke."""

    exit_code: int | None
    stdout: bytes
    stderr: bytes
    stopped: str


def run_process(
    launcher: Sequence[str],
    settings: bytes,
    seccomp: bytes | None,
    command: Sequence[str],
    *,
    timeout_s: float,
    output: int,
) -> Ended:
    """Run `launcher --args SETTINGS ... -- command` until its whole process tree is dead.

    `launcher` ends with the path of bwrap, `settings` are its NUL-terminated options. At most `output` bytes of each
    stream are kept; at 16 times as many the box is stopped ("output"), as it is after `timeout_s` ("timeout").

    Raises:
        InfrastructureError: bubblewrap did not start or did not die.
        OSError: the command is too long for the system.
    """
    with ExitStack() as stack:
        status, status_end = os.pipe()
        stack.callback(os.close, status)
        with ExitStack() as given:
            given.callback(os.close, status_end)
            settings_fd = _memory(settings, given)
            fds = [status_end, settings_fd]
            full = [*launcher, "--args", str(settings_fd), "--json-status-fd", str(status_end)]
            if seccomp is not None:
                fds.append(_memory(seccomp, given))
                full += ["--seccomp", str(fds[-1])]
            process = subprocess.Popen(
                [*full, "--", *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=fds,
                env={"PATH": "/usr/bin:/bin"},
                cwd="/",
                start_new_session=True,
            )
        stack.enter_context(process)
        watch = _Watch(process, status, output)
        stack.callback(watch.kill)
        return watch.until(time.monotonic() + timeout_s)


class _Watch:
    """Reads a running bubblewrap's output and status, and can kill it."""

    def __init__(self, process: subprocess.Popen[bytes], status: int, output: int) -> None:
        assert process.stdout and process.stderr
        self._process = process
        self._status = status
        self._streams = (process.stdout.fileno(), process.stderr.fileno())
        self._kept = {fd: bytearray() for fd in (*self._streams, status)}
        self._total = 0
        self._output = output

    def until(self, deadline: float) -> Ended:
        """Read until bubblewrap is gone; from the deadline on, kill it."""
        poll = select.poll()
        for fd in self._kept:
            poll.register(fd, select.POLLIN)
        left = set(self._kept)
        stopped = ""
        while left:
            wait = deadline - time.monotonic()
            if wait <= 0 and stopped:
                raise InfrastructureError(f"a box was still alive {GRACE_S:g} s after it was killed.")
            if wait <= 0:
                stopped, deadline = "timeout", time.monotonic() + GRACE_S
                self._kill_init()
                continue
            for fd, _ in poll.poll(wait * 1000 + 1):
                if not self._take(fd):
                    poll.unregister(fd)
                    left.discard(fd)
                elif fd == self._status and stopped:
                    self._kill_init()
            if self._total > FLOOD * self._output and not stopped:
                stopped, deadline = "output", time.monotonic() + GRACE_S
                self._kill_init()
        self._process.wait()
        stdout, stderr = (bytes(self._kept[fd]) for fd in self._streams)
        code = self._said().get("exit-code")
        return Ended(None if stopped else code, stdout, stderr, stopped)

    def kill(self) -> None:
        """Kill what is left, where reading was cut short."""
        if self._process.poll() is None:
            self._kill_init()
            self._process.kill()

    def _take(self, fd: int) -> bool:
        data = os.read(fd, _PIECE)
        kept = self._kept[fd]
        if fd == self._status:
            kept += data
        else:
            self._total += len(data)
            kept += data[: self._output - len(kept)]
        return bool(data)

    def _kill_init(self) -> None:
        """Kill the box's first process, with which the kernel kills all others; bubblewrap itself then reaps it."""
        init = self._said().get("child-pid")
        if init is not None and self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(init, signal.SIGKILL)

    def _said(self) -> dict[str, int]:
        said: dict[str, int] = {}
        for line in bytes(self._kept[self._status]).splitlines():
            with suppress(ValueError):  # the last line may be half there
                said.update(json.loads(line))
        return said


def _memory(data: bytes, stack: ExitStack) -> int:
    """A descriptor from which `data` can be read once."""
    fd = os.memfd_create("clawloop")
    stack.callback(os.close, fd)
    with os.fdopen(fd, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
