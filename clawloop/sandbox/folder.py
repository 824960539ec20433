"""The host side of one open box: a folder, a user id that no other open box has, and a workspace with a quota.

The folder's name is the claim on the user id, and a lock on it says that its owner lives; what a killed run left
behind is found by its free lock and removed.
"""

import ctypes
import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from clawloop.sandbox.cgroup import remove_groups
from clawloop.sandbox.workspace import remove_tree
from clawloop.types import Limits

_PREFIX = "clawloop-box-"
_FIRST = {False: 200_000, True: 300_000}  # user ids of boxes in memory and of boxes on disk
_STALE_S = 60.0
_NOSUID_NODEV = 0x2 | 0x4
_DETACH = 0x2

_ETC = {
    "passwd": "root:x:0:0::/:/bin/sh\nagent:x:1000:1000::/workspace:/bin/sh\n",
    "group": "root:x:0:\nagent:x:1000:\n",
}


@dataclass(frozen=True, slots=True)
class Folder:
    """A claimed folder.

    `user` is None where boxes run as this process's own user; `quota` says that a tmpfs bounds the workspace.
    """

    path: Path
    user: int | None
    quota: bool

    @property
    def name(self) -> str:
        """A name that no other open box has."""
        return self.path.name

    @property
    def workspace(self) -> Path:
        """What the box sees as /workspace."""
        return self.path / "w"


@contextmanager
def claim_folder(limits: Limits, *, on_disk: bool) -> Iterator[Folder]:
    """Claim a folder and make its workspace: as root a tmpfs (unless `on_disk`), otherwise a plain directory."""
    root = os.geteuid() == 0
    path, number = _make(_base(on_disk), _FIRST[on_disk])
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    user = number if root else None
    workspace = path / "w"
    mounted = False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.chmod(path, 0o711)
        for name, text in _ETC.items():
            (path / name).write_text(text)
            os.chmod(path / name, 0o644)
        workspace.mkdir()
        mounted = root and not on_disk and _mount(workspace, limits)
        if user is not None:
            os.chown(workspace, user, user)
        yield Folder(path, user, mounted)
    finally:
        if mounted:
            _unmount(workspace)
        remove_tree(path)
        os.close(lock)


def sweep() -> None:
    """Remove the folders, mounts and cgroups of boxes whose process was killed."""
    for base in {_base(False), _base(True)}:
        for path in base.glob(f"{_PREFIX}*"):
            with suppress(FileNotFoundError, NotADirectoryError, PermissionError, BlockingIOError):
                _sweep(path)


def _sweep(path: Path) -> None:
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(lock)
        if status.st_uid != os.geteuid() or time.time() - status.st_mtime < _STALE_S:
            return
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(status, os.stat(path)):
            return  # another box has the name by now
        if os.geteuid() == 0:
            _unmount(path / "w")
            remove_groups(path.name)
        remove_tree(path)
    finally:
        os.close(lock)


def _base(on_disk: bool) -> Path:
    if on_disk:
        return Path("/var/tmp")
    return Path("/tmp") if os.geteuid() == 0 else Path(tempfile.gettempdir())  # one place for root: it keeps ids unique


def _make(base: Path, first: int) -> tuple[Path, int]:
    for number in count(first):
        path = base / f"{_PREFIX}{number}"
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            continue
        return path, number
    raise AssertionError("unreachable: the numbers have no end")


def _mount(target: Path, limits: Limits) -> bool:
    """Mount a tmpfs with the workspace's limits; False where this root may not mount."""
    options = f"size={limits.workspace},nr_inodes={limits.workspace_files},mode=0755"
    libc = ctypes.CDLL(None, use_errno=True)
    done: int = libc.mount(b"tmpfs", os.fsencode(target), b"tmpfs", ctypes.c_ulong(_NOSUID_NODEV), options.encode())
    return done == 0


def _unmount(target: Path) -> None:
    ctypes.CDLL(None).umount2(os.fsencode(target), _DETACH)
