"""harness/command: any program as a harness, in a real box, with a scripted policy behind the gateway."""

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from clawloop.gateway.formats import Hermes
from clawloop.gateway.server import Gateway
from clawloop.harness.command.command import GATEWAY, Command
from clawloop.protocols import InfrastructureError
from clawloop.rollout.episode import Episode
from clawloop.rollout.grade import SandboxGrader
from clawloop.sandbox.bubblewrap import Bubblewrap
from clawloop.types import (
    Completion,
    Outcome,
    Request,
    Rollout,
    Stop,
)
from tests.agent import agent
from tests.counting import TASK


def call(command: str) -> str:
    return f"<tool_call>{json.dumps({'name': 'bash', 'arguments': {'command': command}})}</tool_call>"


class Says:
    """Says its texts in turn, the last for ever. A text may be an error, or an event that it waits for."""

    version = "told"

    def __init__(self, *texts: Any) -> None:
        self.texts, self.asked = texts, 0

    def complete(self, request: Request) -> Completion:
        text = self.texts[min(self.asked, len(self.texts) - 1)]
        self.asked += 1
        if isinstance(text, Exception):
            raise text
        if isinstance(text, threading.Event):
            text.wait(30)
            text = "late"
        prompt = tuple(
            i for m in request.messages for i in (m.ids if m.ids is not None else (*m.content.encode(), 256))
        )
        ids = (*text.encode(), 256)
        return Completion(text, prompt, ids, (0.0,) * len(ids), "stop")


@contextmanager
def stage(**settings: Any) -> Iterator[Episode]:
    with ExitStack() as stack:
        home = Path(stack.enter_context(TemporaryDirectory(dir="/var/tmp")))
        home.chmod(0o755)
        gateway = stack.enter_context(Gateway(Hermes(), host=None, unix=home / "socket"))
        given = {**agent(), "turns": 5, "wall_s": 20.0, "reply_tokens": 400, **settings}
        harness = Command(gateway, "own", **given)
        boxes = Bubblewrap(mounts={GATEWAY: str(home)})
        yield Episode(harness, boxes, SandboxGrader(boxes), retries=0)


def play(policy: Says, **settings: Any) -> Rollout:
    with stage(**settings) as episode:
        return episode(policy, TASK, 0, 1)


def stop(rollout: Rollout) -> Stop | None:
    return rollout.trajectory.stop if rollout.trajectory else None


def test_a_solved_task_is_rewarded_and_every_call_is_recorded() -> None:
    rollout = play(Says(call("wc -l < a.txt > n.txt; echo ok"), "done"))
    assert (rollout.outcome, rollout.reward) == (Outcome.SCORED, 1.0)
    assert rollout.trajectory is not None
    assert [turn.command for turn in rollout.trajectory.turns] == ["wc -l < a.txt > n.txt; echo ok", None]
    assert rollout.trajectory.turns[0].observation == "ok\n"
    (trace,) = rollout.trajectory.traces
    said = [i for i, m in zip(trace.ids, trace.mask, strict=True) if m]
    assert said.count(256) == 2


def test_an_agent_that_never_stops_is_out_of_turns() -> None:
    rollout = play(Says(call("echo 2 > n.txt")))
    assert (rollout.outcome, rollout.reward, stop(rollout)) == (Outcome.AGENT_FAILED, 0.0, Stop.TURNS)
    assert rollout.trajectory is not None and len(rollout.trajectory.turns) == 5


def test_a_policy_that_stalls_is_out_of_time() -> None:
    never = threading.Event()
    threading.Timer(4.0, never.set).start()  # the session waits for the late answer
    rollout = play(Says(never), wall_s=1.5)
    assert (rollout.outcome, rollout.reward, stop(rollout)) == (Outcome.AGENT_FAILED, 0.0, Stop.TIME)


def test_a_policy_that_breaks_gives_no_reward() -> None:
    rollout = play(Says(call("echo 2 > n.txt"), InfrastructureError("the engine is gone")))
    assert (rollout.outcome, rollout.reward) == (Outcome.INFRASTRUCTURE_FAILED, None)
    assert "the engine is gone" in rollout.error


def test_malformed_calls_are_the_agent_s_own_failure() -> None:
    wrong = '<tool_call>{"name": "bash", "arguments": {"nonsense": 1}}</tool_call>'
    rollout = play(Says(wrong, '<tool_call>{"name": "bash", "argu'))
    assert (rollout.outcome, rollout.reward) == (Outcome.SCORED, 0.0)
    assert rollout.trajectory is not None and "no command" in rollout.trajectory.turns[0].observation


def test_a_program_that_fails_after_an_answer_has_crashed() -> None:
    script = "python3 $home/agent.py chat x; mkdir -p $home/log; echo the last words > $home/log/a; exit 7"
    rollout = play(Says("done"), command=["/bin/sh", "-c", script], log="log/*")
    assert (rollout.outcome, rollout.reward, stop(rollout)) == (Outcome.AGENT_FAILED, 0.0, Stop.CRASHED)
    assert rollout.trajectory is not None
    assert rollout.trajectory.turns[-1].observation == "exit 7\nthe last words\n"
    assert stop(play(Says("done"), command=["/bin/sh", "-c", script], stops={7: "turns"})) is Stop.TURNS


@pytest.mark.parametrize("program", [["no-such-program"], ["true"], ["false"]])
def test_a_program_that_asks_nothing_says_nothing_of_the_agent(program: list[str]) -> None:
    rollout = play(Says("done"), command=program)
    assert (rollout.outcome, rollout.reward) == (Outcome.INFRASTRUCTURE_FAILED, None)


def test_nothing_is_left_running() -> None:
    script = "setsid sleep 98765 & python3 $home/agent.py chat x"
    play(Says("done"), command=["/bin/sh", "-c", script])
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not any(b"98765" in command for command in commands)


def test_a_command_that_cannot_be_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match=r"harness\.command: it names no program"):
        Command(None, "own", [])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="lunch is no reason to stop"):
        Command(None, "own", ["x"], stops={1: "lunch"})  # type: ignore[arg-type]
