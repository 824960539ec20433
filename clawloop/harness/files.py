"""What file tools do: through the sandbox's own reading and writing, so never outside of the workspace."""

from collections.abc import Callable

from clawloop.protocols import Sandbox

MOST = 1 << 20
"""Bytes of a file that a tool reads or writes: far more than an observation shows or a reply holds."""


def attempt(do: Callable[[], str | bytes]) -> tuple[int, bytes]:
    """Exit code and output of a file tool: 0 and what it says, or 1 and why it was refused.

    Raises:
        InfrastructureError: the box broke.
    """
    try:
        said = do()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return 1, f"refused: {reason}".encode("utf-8", "backslashreplace")
    return 0, said.encode() if isinstance(said, str) else said


def read(sandbox: Sandbox, path: str, first: int = 1, last: int | None = None) -> bytes:
    """The lines `first` to `last` of a file, counted from 1.

    Raises:
        ValueError: the path is no plain path in the workspace, or there are no such lines.
        OSError: there is no such file, or it is not regular or too large.
    """
    data = sandbox.read(path, MOST)
    if first == 1 and last is None:
        return data
    lines = data.splitlines(keepends=True)
    if not 1 <= first <= (len(lines) if last is None else min(last, len(lines))):
        raise ValueError(f"{path} has {len(lines)} lines")
    return b"".join(lines[first - 1 : last])


def write(sandbox: Sandbox, path: str, text: str) -> str:
    """Write a file, with its folders.

    Raises:
        ValueError: the path is no plain path in the workspace, or the text is too large or does not fit.
    """
    data = text.encode()
    if len(data) > MOST:
        raise ValueError(f"the text is larger than {MOST} bytes")
    sandbox.write(path, data)
    return f"{path} has {len(data)} bytes"


def edit(sandbox: Sandbox, path: str, old: str, new: str) -> str:
    """Replace the one place where `old` stands.

    Raises:
        ValueError: `old` is empty or does not stand there exactly once, or what `write` raises.
        OSError: what `read` raises.
    """
    data = sandbox.read(path, MOST)
    places = data.count(old.encode()) if old else 0
    if places != 1:
        raise ValueError(f"the old text must be in {path} once and is there {places} times")
    changed = data.replace(old.encode(), new.encode())
    if len(changed) > MOST:
        raise ValueError(f"the file would be larger than {MOST} bytes")
    sandbox.write(path, changed)
    return f"{path} has {len(changed)} bytes"


def ended(text: str) -> str:
    """A text whose last line has a line end."""
    return text + "\n" if text and not text.endswith("\n") else text
