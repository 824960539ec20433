"""Folders that are ours while we live; one of them is the host side of an open box, with a user id and a quota.

The folder's name is the claim on its number, and a lock on it says that its owner lives; what a killed run left behind
is found by its free lock and removed.
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

from clawloop.sandbox.cgroup import end_groups
from clawloop.sandbox.workspace import REMOVED, remove_tree
from clawloop.types import Limits

_PREFIX = "clawloop-box-"
_FIRST = {False: 200_000, True: 300_000}  # user ids of boxes in memory and of boxes on disk
_REMOVED_S = 60.0  # how long the removal of a tree, which holds no lock, is left alone
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
def claim(base: Path, prefix: str, first: int = 0) -> Iterator[tuple[Path, int]]:
    """A new folder of this process, removed at the end, and the number in its name, which no other such folder has."""
    path, number, lock = _locked(base, prefix, first)
    try:
        yield path, number
    finally:
        remove_tree(path)
        os.close(lock)


@contextmanager
def claim_folder(limits: Limits, *, on_disk: bool) -> Iterator[Folder]:
    """Claim a folder and make its workspace: as root a tmpfs (unless `on_disk`), otherwise a plain directory."""
    root = os.geteuid() == 0
    with claim(_base(on_disk), _PREFIX, _FIRST[on_disk]) as (path, number):
        user = number if root else None
        workspace = path / "w"
        mounted = False
        try:
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


def sweep_boxes() -> None:
    """Remove the folders, mounts and cgroups of boxes whose process was killed."""
    for base in {_base(False), _base(True)}:
        sweep(base, _PREFIX)


def sweep(base: Path, prefix: str) -> None:
    """Remove the folders that killed processes claimed."""
    for path in base.glob(f"{prefix}[0-9]*"):
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError, BlockingIOError):
            _sweep(path)


def _sweep(path: Path) -> None:
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(lock)
        if status.st_uid != os.geteuid():
            return
        if REMOVED in path.name and time.time() - status.st_mtime < _REMOVED_S:
            return
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _is_at(lock, path):
            return  # another process has the name by now
        if os.geteuid() == 0:
            _unmount(path / "w")
            end_groups(path.name)
        remove_tree(path)
    finally:
        os.close(lock)


def _locked(base: Path, prefix: str, first: int) -> tuple[Path, int, int]:
    """A new folder, its number, and the descriptor that holds its lock."""
    for number in count(first):
        path = base / f"{prefix}{number}"
        with suppress(FileExistsError, FileNotFoundError):  # taken, or swept up before it was locked
            path.mkdir(mode=0o700)
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if _is_at(lock, path):
                return path, number, lock
            os.close(lock)
    raise AssertionError("unreachable: the numbers have no end")


def _is_at(lock: int, path: Path) -> bool:
    """Whether a path still leads to what a descriptor holds."""
    try:
        return os.path.samestat(os.fstat(lock), os.stat(path))
    except FileNotFoundError:
        return False


def _base(on_disk: bool) -> Path:
    if on_disk:
        return Path("/var/tmp")
    return Path("/tmp") if os.geteuid() == 0 else Path(tempfile.gettempdir())  # one place for root: it keeps ids unique


def _mount(target: Path, limits: Limits) -> bool:
    """Mount a tmpfs with the workspace's limits; False where this root may not mount."""
    options = f"size={limits.workspace},nr_inodes={limits.workspace_files},mode=0755"
    libc = ctypes.CDLL(None, use_errno=True)
    done: int = libc.mount(b"tmpfs", os.fsencode(target), b"tmpfs", ctypes.c_ulong(_NOSUID_NODEV), options.encode())
    return done == 0


def _unmount(target: Path) -> None:
    ctypes.CDLL(None).umount2(os.fsencode(target), _DETACH)
