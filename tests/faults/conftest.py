"""A task with a real verifier, policies that solve it, and a program that may be its harness."""

import json
from typing import Any

import pytest

from clawloop.types import Completion, Request, Task
from tests.agent import agent
from tests.counting import TASK


@pytest.fixture
def task() -> Task:
    return TASK


@pytest.fixture
def program() -> dict[str, Any]:
    """The settings of a harness that is a program of its own."""
    return {
        "_target_": "clawloop.harness.command.command.Command",
        "name": "own",
        **agent(),
        "turns": 5,
        "wall_s": 30.0,
        "reply_tokens": 400,
        "format": {"_target_": "clawloop.gateway.formats.Hermes"},
    }


class Works:
    """Runs the commands in turn, in the form of a shell block or of a tool call, and then says done."""

    version = "works"

    def __init__(self, *commands: str, calls: bool = False) -> None:
        self.commands, self.calls = commands, calls

    def complete(self, request: Request) -> Completion:
        turn = sum(message.role == "assistant" for message in request.messages)
        text = "done"
        if turn < len(self.commands):
            command = self.commands[turn]
            call = json.dumps({"name": "bash", "arguments": {"command": command}})
            text = f"<tool_call>{call}</tool_call>" if self.calls else f"```bash\n{command}\n```"
        prompt = tuple(
            i for m in request.messages for i in (m.ids if m.ids is not None else (*m.content.encode(), 256))
        )
        ids = (*text.encode(), 256)
        return Completion(text, prompt, ids, (0.0,) * len(ids), "stop")


@pytest.fixture
def works() -> type[Works]:
    return Works
