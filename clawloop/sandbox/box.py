"""One open box: commands in it, and its files."""

import errno
import os
import resource
import time
from collections.abc import Mapping, Sequence

from clawloop.protocols import InfrastructureError
from clawloop.sandbox.cgroup import Group
from clawloop.sandbox.process import run_process
from clawloop.sandbox.surroundings import CANNOT_RUN, check_environment, limit_commands, most, refusal
from clawloop.sandbox.workspace import Tree
from clawloop.types import CommandResult, Limits, Snapshot


class Box:
    """A box that `Bubblewrap.open` made (`protocols.Sandbox`). Its files are only touched while no command runs.

    `quota` says whether the file system bounds the workspace; if not, it is measured after each command.
    """

    def __init__(
        self,
        tree: Tree,
        quota: bool,
        group: Group | None,
        limits: Limits,
        launcher: Sequence[str],
        settings: bytes,
        seccomp: bytes | None,
    ) -> None:
        self.quota = quota
        self._tree = tree
        self._group = group
        self._limits = limits
        self._launcher = launcher
        self._settings = settings
        self._seccomp = seccomp
        self._prefix = ["/bin/sh", "-c", _first_line(limits, per_process_memory=group is None), "box"]
        self._oom_kills = 0

    def run(
        self, command: Sequence[str], *, timeout_s: float | None = None, environment: Mapping[str, str] | None = None
    ) -> CommandResult:
        """Run an argument list, and return when all its processes are dead.

        A missing program is exit code 127, one that cannot be run (or a command that is no valid argument list) 126,
        death by signal s 128 + s. `stopped` is timeout, output, memory (a process was killed for it) or workspace (it
        holds more than allowed). At most `limits.output` bytes of each stream are kept.

        Raises:
            InfrastructureError: the box broke.
            ValueError: `environment` is malformed.
        """
        if not_a_command := refusal(command):
            return not_a_command
        settings = self._settings + pack(environment_options(environment or {}))
        seconds = self._limits.wall_s if timeout_s is None else timeout_s
        start = time.monotonic()
        try:
            ended = run_process(
                self._launcher,
                settings,
                self._seccomp,
                [*self._prefix, *command],
                timeout_s=seconds,
                output=self._limits.output,
            )
        except (OSError, UnicodeEncodeError) as error:
            if isinstance(error, UnicodeEncodeError) or error.errno == errno.E2BIG:
                return CommandResult(CANNOT_RUN, b"", b"box: not a valid command: too long, or not text\n")
            raise InfrastructureError(f"cannot start bubblewrap: {error.strerror}.") from error
        self._tree.reopen()
        stopped = ended.stopped
        if self._killed_for_memory():
            stopped = "memory"
        elif ended.exit_code is None and not stopped:
            raise InfrastructureError(f"bubblewrap failed: {_last_line(ended.stderr)}")
        elif not self.quota and not stopped and not self._tree.fits():
            stopped = "workspace"
        code = None if stopped else ended.exit_code
        return CommandResult(code, ended.stdout, ended.stderr, stopped, time.monotonic() - start)

    def read(self, path: str, limit: int) -> bytes:
        """A regular file of at most `limit` bytes; see `Tree.read`."""
        return self._tree.read(path, limit)

    def write(self, path: str, data: bytes) -> None:
        """Put a file in place; see `Tree.write`."""
        self._tree.write(path, data)

    def snapshot(self) -> Snapshot:
        """All that the workspace holds; see `Tree.snapshot`."""
        return self._tree.snapshot()

    def _killed_for_memory(self) -> bool:
        if self._group is None:
            return False
        before, self._oom_kills = self._oom_kills, self._group.oom_kills()
        return self._oom_kills > before


def environment_options(variables: Mapping[str, str]) -> list[str]:
    """Bwrap's options that set variables. Raises ValueError for a malformed name or value."""
    check_environment(variables)
    return [word for name, value in variables.items() for word in ("--setenv", name, value)]


def pack(options: Sequence[str]) -> bytes:
    """Options as `bwrap --args` reads them."""
    return b"".join(os.fsencode(option) + b"\0" for option in options)


def _first_line(limits: Limits, *, per_process_memory: bool) -> str:
    """A shell line that is the box's first process: it sets hard limits, runs "$@" as a child and returns its code.

    As first process of its pid namespace it ends the namespace, and all that runs in it, when it ends.
    """
    line = limit_commands(limits)
    if per_process_memory:
        line.append(f"ulimit -v {most(resource.RLIMIT_AS, limits.memory) // 1024}")
    processes = most(resource.RLIMIT_NPROC, limits.processes)
    line.append(f"ulimit -p {processes} 2>/dev/null || ulimit -u {processes}")  # dash has -p where bash has -u
    return "; ".join([*line, '(exec "$@")', "exit $?"])


def _last_line(text: bytes) -> str:
    lines = text.decode("utf-8", "backslashreplace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")[:300]
