"""A workspace seen from outside: a folder in which an untrusted process has written, read without trusting it.

Paths are opened component by component without following links, and a file is opened only once it is known to be
regular, so that nothing planted there leads elsewhere, blocks, or fills the memory.
"""

import errno
import os
import stat
import tempfile
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from clawloop.types import Limits, Snapshot

_DEPTH, _LENGTH = 32, 1024  # of a path that a snapshot takes: components, bytes
_DEEPEST, _LONGEST = 40, 2048  # of a path that a caller gives
REMOVED = ".removed-"
"""What the name of a tree has in it while it is removed."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def check_path(path: str) -> tuple[str, ...]:
    """The components of a relative workspace path.

    Raises:
        ValueError: the path is empty, absolute, too deep or too long, or has a component that is empty, "." or "..",
            over 255 bytes, not UTF-8, or with control characters.

    >>> check_path("a/b.txt")
    ('a', 'b.txt')
    >>> check_path("../x")
    Traceback (most recent call last):
    ValueError: workspace path '../x' must be relative, of plain names, at most 40 deep.
    """
    parts = tuple(path.split("/"))
    wrong = any(part in ("", ".", "..") or not _plain(part) for part in parts)
    if wrong or len(parts) > _DEEPEST or len(path.encode()) > _LONGEST:
        raise ValueError(f"workspace path {path[:200]!a} must be relative, of plain names, at most {_DEEPEST} deep.")
    return parts


class Tree:
    """The files below `root`. New ones belong to the user id `owner` (None: to this process's user)."""

    def __init__(self, root: Path, owner: int | None, limits: Limits) -> None:
        self._root = root
        self._owner = owner
        self._limits = limits

    def reopen(self) -> None:
        """Give the root folder its mode back, which the box's processes may have taken away."""
        os.chmod(self._root, 0o755)

    def read(self, path: str, limit: int) -> bytes:
        """The contents of a regular file of at most `limit` bytes.

        Raises:
            OSError: there is no such file (FileNotFoundError), it is not regular, or it is larger.
        """
        *above, name = check_path(path)
        folder = self._open(tuple(above))
        try:
            return _read(folder, name, limit, path)
        finally:
            os.close(folder)

    def write(self, path: str, data: bytes) -> None:
        """Put a file in place, with its folders.

        Raises:
            ValueError: the path is malformed, a link or a folder is in the way, or there is no room.
        """
        *above, name = check_path(path)
        try:
            folder = self._open(tuple(above), make=True)
            try:
                self._write(folder, name, data)
            finally:
                os.close(folder)
        except OSError as error:
            raise ValueError(f"cannot write {path!a} into the workspace: {error.strerror}.") from error

    def snapshot(self) -> Snapshot:
        """Every regular file within the limits, every folder, and why the rest was refused."""
        return gather(self.entries())

    def entries(self) -> Iterator[tuple[str, str, bytes]]:
        """What there is, one by one: ("file", path, data), ("folder", path, b"") or (why it is refused, path, b"").

        At most `file_size` bytes a file, `workspace` bytes in all, and `workspace_files` entries; a folder that would
        go over the last is refused as too_large.
        """
        room, entries = self._limits.workspace, self._limits.workspace_files
        pending: list[tuple[str, ...]] = [()]
        while pending:
            parts = pending.pop()
            here = "/".join(parts) or "."
            try:
                folder = self._open(parts)
            except OSError:
                yield "unreadable", here, b""
                continue
            try:
                names = _names(folder, entries)
                if names is None:
                    yield "too_large", here, b""
                    continue
                entries -= len(names)
                for name in names:
                    path = "/".join((*parts, name))
                    if not _plain(name) or len(path.encode()) > _LENGTH:
                        yield "bad_name", _printable(path), b""
                        continue
                    status = os.lstat(name, dir_fd=folder)
                    reason = _kind(status.st_mode)
                    if reason == "directory" and len(parts) + 1 < _DEPTH:
                        yield "folder", path, b""
                        pending.append((*parts, name))
                    elif reason == "directory" or (not reason and status.st_size > min(self._limits.file_size, room)):
                        yield "too_large", path, b""
                    elif reason:
                        yield reason, path, b""
                    else:
                        try:
                            data = _read(folder, name, status.st_size, path)
                        except OSError:
                            yield "unreadable", path, b""
                        else:
                            room -= status.st_size
                            yield "file", path, data
            finally:
                os.close(folder)

    def fits(self) -> bool:
        """Whether the tree is within `workspace` bytes on disk and `workspace_files` entries, and can be measured."""
        room, entries = self._limits.workspace, self._limits.workspace_files
        pending: list[tuple[str, ...]] = [()]
        while pending:
            parts = pending.pop()
            try:
                folder = self._open(parts)
            except OSError:
                return False
            try:
                names = _names(folder, entries)
                if names is None or len(parts) > _DEEPEST:
                    return False
                entries -= len(names)
                for name in names:
                    status = os.lstat(name, dir_fd=folder)
                    room -= status.st_blocks * 512
                    if stat.S_ISDIR(status.st_mode):
                        pending.append((*parts, name))
            finally:
                os.close(folder)
            if room < 0:
                return False
        return True

    def _open(self, parts: tuple[str, ...], *, make: bool = False) -> int:
        """A descriptor of a folder below the root; the caller closes it."""
        folder = os.open(self._root, _FOLDER)
        for part in parts:
            try:
                if make:
                    self._make(folder, part)
                below = os.open(part, _FOLDER, dir_fd=folder)
            finally:
                os.close(folder)
            folder = below
        return folder

    def _make(self, folder: int, name: str) -> None:
        try:
            os.mkdir(name, 0o755, dir_fd=folder)
        except FileExistsError:
            return
        os.chmod(name, 0o755, dir_fd=folder)
        if self._owner is not None:
            os.chown(name, self._owner, self._owner, dir_fd=folder, follow_symlinks=False)

    def _write(self, folder: int, name: str, data: bytes) -> None:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(name, "wb", buffering=0, opener=lambda n, _: os.open(n, flags, 0o644, dir_fd=folder)) as file:
            if self._owner is not None:
                os.fchown(file.fileno(), self._owner, self._owner)
            view = memoryview(data)
            while view:
                view = view[file.write(view) :]


def gather(entries: Iterable[tuple[str, str, bytes]]) -> Snapshot:
    """The snapshot of what `Tree.entries` said, sorted."""
    files: dict[str, bytes] = {}
    folders: list[str] = []
    refused: dict[str, str] = {}
    for kind, path, data in entries:
        if kind == "file":
            files[path] = data
        elif kind == "folder":
            folders.append(path)
        else:
            refused[path] = kind
    return Snapshot(dict(sorted(files.items())), tuple(sorted(folders)), dict(sorted(refused.items())))


def remove_tree(folder: Path) -> None:
    """Remove a folder tree however deep, unreadable or oddly named it is, with two descriptors and no recursion.

    Each nested folder is moved up beside the root under a number, emptied there, and removed. `folder`'s name is free
    from the start, so the place for this has a name that nobody else takes.
    """
    top = tempfile.mkdtemp(prefix=f"{folder.name}{REMOVED}", dir=folder.parent)
    base = os.open(top, _FOLDER)
    try:
        os.chmod(folder, 0o700)
        os.rename(folder, "0", dst_dir_fd=base)
        done, made = 0, 1
        while done < made:
            here = os.open(str(done), _FOLDER, dir_fd=base)
            try:
                with os.scandir(here) as entries:
                    children = [(os.fsencode(entry.name), entry.is_dir(follow_symlinks=False)) for entry in entries]
                for name, is_folder in children:
                    if is_folder:
                        os.chmod(name, 0o700, dir_fd=here)
                        os.rename(name, str(made), src_dir_fd=here, dst_dir_fd=base)
                        made += 1
                    else:
                        os.unlink(name, dir_fd=here)
            finally:
                os.close(here)
            os.rmdir(str(done), dir_fd=base)
            done += 1
    finally:
        os.close(base)
    os.rmdir(top)


def _names(folder: int, most: int) -> list[str] | None:
    """The sorted names in a folder, or None if there are more than `most`."""
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in islice(entries, most + 1))
    return names if len(names) <= most else None


def _read(folder: int, name: str, limit: int, path: str) -> bytes:
    mode = os.lstat(name, dir_fd=folder).st_mode
    if kind := _kind(mode):
        raise OSError(errno.EINVAL, f"{path!a} in the workspace is not a regular file but a {kind}")
    with open(name, "rb", buffering=0, opener=lambda n, _: os.open(n, _FILE, dir_fd=folder)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, f"{path!a} in the workspace is not a regular file")
        data = bytearray()
        while len(data) <= limit and (piece := file.read(limit + 1 - len(data))):
            data += piece
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"{path!a} in the workspace is larger than {limit} bytes")
    return bytes(data)


def _kind(mode: int) -> str:
    """What is at a path if not a regular file: link, fifo, socket, device or directory; empty for a regular file."""
    if stat.S_ISREG(mode):
        return ""
    kinds = {stat.S_IFLNK: "link", stat.S_IFIFO: "fifo", stat.S_IFSOCK: "socket", stat.S_IFDIR: "directory"}
    return kinds.get(stat.S_IFMT(mode), "device")


def _plain(name: str) -> bool:
    """Whether a name is UTF-8 of at most 255 bytes without control, format or unassigned characters."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return False
    return size <= 255 and not any(unicodedata.category(c).startswith("C") for c in name)


def _printable(path: str) -> str:
    text = os.fsencode(path).decode("utf-8", "backslashreplace")
    return "".join(c.encode("unicode_escape").decode() if unicodedata.category(c).startswith("C") else c for c in text)
