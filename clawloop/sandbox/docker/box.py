"""One open box: commands in a container, and its files."""

import time
from collections.abc import Mapping, Sequence

from clawloop.protocols import InfrastructureError
from clawloop.sandbox.docker.container import Container
from clawloop.sandbox.docker.execute import execute
from clawloop.sandbox.docker.files import Files
from clawloop.sandbox.surroundings import CANNOT_RUN, check_environment, limit_commands, refusal
from clawloop.types import CommandResult, Limits, Snapshot

_LONGEST_WORD = 128 << 10  # the kernel's bound on one argument
_LONGEST_LIST = 1 << 20
_STARTED = b"\n"


class DockerBox:
    """A box that `Docker.open` made (`protocols.Sandbox`). Its files are only touched while no command runs.

    `quota` says whether the file system bounds the workspace; if not, it is measured after each command.
    """

    def __init__(self, container: Container, environment: Mapping[str, str], limits: Limits, *, quota: bool) -> None:
        self.quota = quota
        self._container = container
        self._environment = environment
        self._limits = limits
        self._files = Files(container, limits)
        self._prefix = ["/bin/sh", "-c", _first_line(limits), "box"]
        self._scratch = 0

    def fill(self, contents: Mapping[str, bytes]) -> None:
        """Put the first files in place. Raises ValueError where they exceed the limits."""
        self._files.write(contents)
        if not self.quota and not self._files.fits():
            raise ValueError("the workspace's files exceed the limits' workspace or workspace_files; raise those.")

    def run(
        self, command: Sequence[str], *, timeout_s: float | None = None, environment: Mapping[str, str] | None = None
    ) -> CommandResult:
        """Run an argument list, and return when all its processes are dead; exit codes are those of `box.Box.run`.

        Raises:
            InfrastructureError: the box broke.
            ValueError: `environment` is malformed.
        """
        check_environment(environment or {})
        if not_a_command := refusal(command) or _too_long(command):
            return not_a_command
        start = time.monotonic()
        if self._scratch:
            self._files.clean()
        ended = execute(
            self._container,
            [*self._prefix, *command],
            environment={**self._environment, **(environment or {})},
            timeout_s=self._limits.wall_s if timeout_s is None else timeout_s,
            output=self._limits.output + len(_STARTED),
        )
        seen = self._container.kill_all()
        stopped, self._scratch = ended.stopped, seen.scratch
        if seen.oom_kills:
            stopped = "memory"
        elif not ended.stderr.startswith(_STARTED) and not stopped:
            words = (ended.stdout + ended.stderr).decode("utf-8", "backslashreplace").strip()
            raise InfrastructureError(f"the Docker engine did not start a command: {words[:300]}")
        elif not self.quota and not stopped and not self._files.fits():
            stopped = "workspace"
        code = None if stopped else ended.exit_code
        output = self._limits.output
        stderr = ended.stderr.removeprefix(_STARTED)
        return CommandResult(code, ended.stdout[:output], stderr[:output], stopped, time.monotonic() - start)

    def read(self, path: str, limit: int) -> bytes:
        """A regular file of at most `limit` bytes; see `workspace.Tree.read`."""
        return self._files.read(path, limit)

    def write(self, path: str, data: bytes) -> None:
        """Put a file in place; see `workspace.Tree.write`."""
        self._files.write({path: data})

    def snapshot(self) -> Snapshot:
        """All that the workspace holds; see `workspace.Tree.snapshot`."""
        return self._files.snapshot()


def _first_line(limits: Limits) -> str:
    """A shell line that says that it started, sets hard limits, runs "$@" as a child and returns its code.

    It also kills what the child left behind. The box's keeper does too; here it saves the engine a wait.
    """
    line = [
        "echo >&2",
        *limit_commands(limits),
        "chmod 755 /workspace 2>/dev/null",
        "cd /workspace",
        '(exec "$@")',
        "code=$?",
        "kill -9 -1 2>/dev/null",
        "exit $code",
    ]
    return "; ".join(line)


def _too_long(command: Sequence[str]) -> CommandResult | None:
    try:
        sizes = [len(word.encode()) for word in command]
    except UnicodeEncodeError:
        sizes = [_LONGEST_WORD]
    if max(sizes) < _LONGEST_WORD and sum(sizes) < _LONGEST_LIST:
        return None
    return CommandResult(CANNOT_RUN, b"", b"box: not a valid command: too long, or not text\n")
