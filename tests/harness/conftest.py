"""Agents that say what they are told, in a real box."""

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from clawloop.sandbox.bubblewrap import Bubblewrap
from clawloop.types import Assignment, Completion, Contract, Message, Request, Snapshot, Trajectory, Workspace

Played: TypeAlias = tuple[Trajectory, tuple[Message, ...], Snapshot]


class Told:
    version = "told"

    def __init__(self, *replies: str) -> None:
        self.replies = list(replies)
        self.messages: tuple[Message, ...] = ()

    def complete(self, request: Request) -> Completion:
        self.messages = request.messages
        text = self.replies.pop(0)
        return Completion(text, (), tuple(text.encode()), (0.0,) * len(text.encode()), "stop")


@pytest.fixture
def play() -> Callable[..., Played]:
    """Plays replies in a harness: the trajectory, the last conversation, and what is left of the workspace."""

    def run(harness: Any, *replies: str, prepare: str = "true", **files: bytes) -> Played:
        workspace = Workspace({"a.txt": b"one\ntwo\nthree\n", **files})
        agent = Told(*replies)
        with Bubblewrap().open(workspace) as box:
            assert box.run(["/bin/bash", "-c", prepare]).exit_code == 0
            trajectory = harness.run(Assignment("t1", "Work.", workspace, Contract((), ())), agent, box, 0)
            return trajectory, agent.messages, box.snapshot()

    return run
