"""Memory and process limits over a whole process tree, where this process may make cgroups (v1 or v2)."""

import os
import secrets
import signal
import time
from contextlib import suppress
from pathlib import Path

_TREE = Path("/sys/fs/cgroup")
_SPARE_PROCESSES = 8  # bubblewrap, the box's init and their start-up


class Group:
    """One cgroup: a folder per v1 controller, or one v2 folder. Only processes started through `entries` are in it."""

    def __init__(self, folders: tuple[Path, ...]) -> None:
        self._folders = folders
        self._counters = [
            path
            for folder in folders
            for name in ("memory.events", "memory.oom_control")
            if (path := folder / name).exists()
        ]

    @property
    def entries(self) -> tuple[str, ...]:
        """The files into which a process of one thread writes 0 to enter.

        On v1 that is `tasks`, which spares the kernel-wide lock that `cgroup.procs` takes for each move.
        """
        return tuple(
            str(tasks if (tasks := folder / "tasks").exists() else folder / "cgroup.procs") for folder in self._folders
        )

    def oom_kills(self) -> int:
        """How many processes were killed for memory since the group was made."""
        return sum(
            int(line.split()[1])
            for path in self._counters
            for line in path.read_text().splitlines()
            if line.startswith("oom_kill ")
        )

    def close(self) -> None:
        """Remove the group, whose processes must be dead; the kernel may need a moment to notice."""
        for folder in self._folders:
            _remove(folder)


def open_group(name: str, *, memory: int, processes: int) -> Group:
    """A new group of the box `name`, with limits on bytes of memory and on processes.

    Each group has a name of its own: one of an earlier box of that name may hold dead processes for a while yet.

    Raises:
        OSError: this machine does not let us.
    """
    made: list[Path] = []
    own = f"{name}.{secrets.token_hex(4)}"
    remove_groups(name)
    try:
        for parent, values in _settings(memory, processes + _SPARE_PROCESSES):
            folder = parent / own
            folder.mkdir()
            made.append(folder)
            for key, value in values.items():
                (folder / key).write_text(str(value))
    except OSError:
        Group(tuple(made)).close()
        raise
    return Group(tuple(made))


def remove_groups(name: str) -> None:
    """Remove what earlier boxes called `name` left, as far as its processes have gone; the caller holds the name."""
    for parent, _ in _settings(0, 0):
        for folder in parent.glob(f"{name}.*"):
            with suppress(OSError):
                folder.rmdir()


def end_groups(name: str) -> None:
    """Kill what is left in groups of the box `name`, whose owner is dead, and remove them."""
    for parent, _ in _settings(0, 0):
        for folder in parent.glob(f"{name}.*"):
            with suppress(OSError):
                for pid in (folder / "cgroup.procs").read_text().split():
                    os.kill(int(pid), signal.SIGKILL)
            _remove(folder)


def _settings(memory: int, processes: int) -> list[tuple[Path, dict[str, int]]]:
    """Where groups are made, and what is written into a new one."""
    if (_TREE / "cgroup.controllers").exists():
        return [(_v2_parent(), {"memory.max": memory, "pids.max": processes})]
    found = []
    for controller, values in (("memory", {"memory.limit_in_bytes": memory}), ("pids", {"pids.max": processes})):
        top = _TREE / controller
        own = top / _own_v1(controller).lstrip("/")
        found.append((own if own.is_dir() else top, values))
    return found


def _v2_parent() -> Path:
    parent = _TREE / "clawloop"
    try:
        parent.mkdir(exist_ok=True)
        for folder in (_TREE, parent):
            control = folder / "cgroup.subtree_control"
            if not {"memory", "pids"} <= set(control.read_text().split()):
                control.write_text("+memory +pids")
    except OSError:
        return _TREE / "not-writable"  # where `open_group` fails
    return parent


def _own_v1(controller: str) -> str:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            return path
    return "/"


def _remove(folder: Path) -> None:
    for _ in range(1000):
        try:
            os.rmdir(folder)
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.005)
        else:
            return
