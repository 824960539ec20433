"""Playing a reference solution in a workspace of one's choice."""

from collections.abc import Sequence

from clawloop.protocols import Sandboxes
from clawloop.types import CommandResult, Snapshot, Workspace


def play(
    oracle: Sequence[str], workspace: Workspace, sandboxes: Sandboxes, command_s: float
) -> tuple[Snapshot, CommandResult, str]:
    """What is left, and how the last command ended; it is the one that was stopped where one was.

    Args:
        oracle: shell commands, each run in a fresh shell as an agent's are.
        workspace: where they start.
        sandboxes: opens the box.
        command_s: seconds that one command may take.
    """
    result, last = CommandResult(0, b"", b""), ""
    with sandboxes.open(workspace) as box:
        for last in oracle:
            result = box.run(["/bin/bash", "-c", last], timeout_s=command_s)
            if result.stopped:
                break
        return box.snapshot(), result, last
