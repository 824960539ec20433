"""What goes into a sandbox and what comes out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on one sandbox. Sizes are bytes, times are seconds.

    `memory` is for the whole process tree where the machine allows (cgroups), and per process otherwise.
    """

    wall_s: float = 20.0
    cpu_s: int = 20
    memory: int = 512 << 20
    processes: int = 64
    file_size: int = 16 << 20
    open_files: int = 256
    workspace: int = 64 << 20
    workspace_files: int = 4096
    tmp: int = 32 << 20
    output: int = 256 << 10


@dataclass(frozen=True, slots=True)
class CommandResult:
    """One command's end.

    `exit_code` is None where the command was stopped; `stopped` then says why: timeout, output, memory or workspace.
    """

    exit_code: int | None
    stdout: bytes
    stderr: bytes
    stopped: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A final workspace: regular files by path, and what could not be taken (path to reason: link, too_large, ...)."""

    files: Mapping[str, bytes]
    directories: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, files: Mapping[str, bytes]) -> "Snapshot":
        """A workspace of these files, and of no folders but theirs.

        >>> Snapshot.of({"a/b/c.txt": b""}).directories
        ('a', 'a/b')
        """
        above = {str(folder) for path in files for folder in PurePosixPath(path).parents} - {"."}
        return cls(files, tuple(sorted(above)))
