"""What a command finds in any box, whatever makes the box: variables, limits, and what counts as a command."""

import os
import re
import resource
import stat
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path, PurePosixPath

from clawloop.types import CommandResult, Limits

CANNOT_RUN = 126
"""The shell's code for a command that cannot be executed."""
SHARED_MEMORY = 16 << 20
"""Bytes of /dev/shm."""
_MOST_ARGUMENTS = 4096
_FREE = ("opt", "srv", "mnt")  # where nothing of a box's own lies

ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/workspace",
    "USER": "agent",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "TMPDIR": "/tmp",
    "TERM": "dumb",
    "PAGER": "cat",
    "EDITOR": "false",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_CONFIG_NOSYSTEM": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
}


def limits_of(given: Limits | Mapping[str, float] | None) -> Limits:
    """Limits as a config gives them: none, a mapping of some fields, or whole.

    Raises:
        ValueError: an unknown field.
    """
    if given is None or isinstance(given, Limits):
        return given or Limits()
    known = {field.name: field.type for field in fields(Limits)}
    if unknown := sorted(set(given) - set(known)):
        raise ValueError(f"sandbox limits have no {unknown[0]!r}; the names are {', '.join(known)}.")
    return Limits(**{name: float(value) if name == "wall_s" else int(value) for name, value in given.items()})  # type: ignore[arg-type]


def check_hostname(name: str) -> None:
    """Raises ValueError for a malformed host name."""
    if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?", name):
        raise ValueError(f"host name {name!a} must be 1 to 63 letters, digits and inner hyphens.")


def check_environment(variables: Mapping[str, str]) -> None:
    """Raises ValueError for a malformed name or value."""
    for name, value in variables.items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or "\0" in value:
            raise ValueError(f"environment variable {name!a} must have a plain name and a value without NUL.")


def check_mounts(mounts: Mapping[str, str], *, private: bool) -> dict[str, str]:
    """Where folders of this machine lie in a box, and which, with links followed.

    `private` boxes run as a user of their own, who sees what everyone may read.

    Raises:
        ValueError: one is no folder, cannot be seen, is not there, or somebody else may change what it shows.
    """
    shown = {}
    for inside, outside in mounts.items():
        place, folder = PurePosixPath(inside), Path(outside).resolve()
        if not place.is_absolute() or ".." in place.parts or len(place.parts) < 3 or place.parts[1] not in _FREE:
            raise ValueError(f"mounts: {inside!r} must be a path in one of /{', /'.join(_FREE)} of the box.")
        if not folder.is_dir():
            raise ValueError(f"mounts: {inside} must show a folder, and {outside} is none.")
        for part in (folder, *folder.parents):
            status = part.stat()
            if private and not status.st_mode & stat.S_IXOTH:
                raise ValueError(
                    f"mounts: boxes cannot see {outside}, because others may not enter {part}; move the folder "
                    f"to where everyone may read it, such as /opt, or run `chmod o+rx {part}`."
                )
            shared = status.st_mode & stat.S_IWOTH and (part == folder or not status.st_mode & stat.S_ISVTX)
            if shared or status.st_uid not in (0, os.geteuid()):
                raise ValueError(
                    f"mounts: {outside} is not shown to boxes, because others than root and you may change {part}; "
                    "show a folder of your own that only you may write."
                )
        shown[str(place)] = str(folder)
    return shown


def refusal(command: Sequence[str]) -> CommandResult | None:
    """What is answered to a list that no system could run, or None."""
    if not command or len(command) > _MOST_ARGUMENTS or any("\0" in word for word in command):
        return CommandResult(CANNOT_RUN, b"", b"box: not a valid command: empty, too long, or with a NUL\n")
    return None


def limit_commands(limits: Limits) -> list[str]:
    """Shell commands that set hard limits on each process to come."""
    return [
        "umask 022",
        "ulimit -c 0",
        f"ulimit -f {most(resource.RLIMIT_FSIZE, limits.file_size) // 512}",
        f"ulimit -n {most(resource.RLIMIT_NOFILE, limits.open_files)}",
        f"ulimit -S -t {most(resource.RLIMIT_CPU, limits.cpu_s)}",
        f"ulimit -H -t {most(resource.RLIMIT_CPU, limits.cpu_s + 1)}",
    ]


def most(kind: int, wanted: int) -> int:
    """`wanted`, or this process's own hard limit if that is lower: no process may raise it."""
    hard = resource.getrlimit(kind)[1]
    return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
