"""The command line agents of conf/harness, each in a real box with a scripted policy behind the gateway."""

import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from clawloop.build import arena
from clawloop.config.folders import data_dir
from clawloop.config.spine import register
from clawloop.protocols import InfrastructureError
from clawloop.rollout.episode import Episode
from clawloop.rollout.grade import SandboxGrader
from clawloop.sandbox.bubblewrap import Bubblewrap
from clawloop.types import (
    Card,
    Completion,
    Contract,
    Deliverable,
    Outcome,
    Request,
    Rollout,
    Stop,
    Task,
    Verifier,
    Workspace,
)

pytestmark = [pytest.mark.cli, pytest.mark.timeout(600)]
CLIS = ("pi", "codex", "qwen", "gemini", "opencode", "openclaw")
MARK = f"ticket {os.getpid()}"
CHECK = """
import json
try:
    reason = None if open("work/n.txt").read().strip() == "2" else "wrong_value"
except FileNotFoundError:
    reason = "missing"
print(json.dumps({"fields": {"n": reason}}))
"""
TASK = Task(
    "t1",
    f"a.txt has two lines. Count its lines into n.txt. ({MARK})",
    Workspace({"a.txt": b"x\ny\n"}),
    Verifier(CHECK, '"2"', 5.0),
    Contract((), (Deliverable("n.txt", "text", {"n": "integer"}),)),
    Card("capability", "audit/analysis", "analysis", "hives", 0, "text", 1, "l1"),
)
WORK = "wc -l < a.txt > n.txt"
Play = Callable[..., Rollout]


class Says:
    """The n-th saying answers the n-th request, the last all that follow; commands go to the shell tool."""

    version = "told"

    def __init__(self, *sayings: Callable[[Request, int], str]) -> None:
        self.sayings, self.asked = sayings, 0

    def complete(self, request: Request) -> Completion:
        n, self.asked = self.asked, self.asked + 1
        text = self.sayings[min(n, len(self.sayings) - 1)](request, n)
        prompt = tuple(
            i for m in request.messages for i in (m.ids if m.ids is not None else (*m.content.encode(), 256))
        )
        ids = (*text.encode(), 256)
        return Completion(text, prompt, ids, (0.0,) * len(ids), "stop")


def does(command: str, **other: Any) -> Callable[[Request, int], str]:
    def say(request: Request, n: int) -> str:
        for tool in request.tools:
            for name in {"command", "cmd"} & set(json.loads(tool.parameters).get("properties", {})):
                arguments = {name: command.format(n=n)} | ({"description": "Works."} if name == "command" else {})
                return f"<tool_call>{json.dumps({'name': tool.name, 'arguments': other or arguments})}</tool_call>"
        return "There is no shell."

    return say


def says(text: str) -> Callable[[Request, int], str]:
    return lambda request, n: text


def breaks(request: Request, n: int) -> str:
    raise InfrastructureError("the engine is gone")


@pytest.fixture(scope="module")
def installed() -> str:
    script = Path(__file__).parents[2] / "scripts" / "install_clis.sh"
    done = subprocess.run([script], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"the command line agents cannot be installed here: {done.stderr.strip()}")
    os.environ["CLAWLOOP_CLIS"] = done.stdout.strip()
    return done.stdout.strip()


@pytest.fixture(params=["bubblewrap", pytest.param("docker", marks=pytest.mark.docker)])
def sandbox(request: pytest.FixtureRequest) -> dict[str, Any]:
    if request.param == "bubblewrap":
        return {"_target_": "clawloop.sandbox.bubblewrap.Bubblewrap"}
    return {
        "_target_": "clawloop.sandbox.docker.docker.Docker",
        "host": request.getfixturevalue("docker_engine"),
        "warm": 0,
    }


@pytest.fixture(params=CLIS)
def play(request: pytest.FixtureRequest, installed: str, sandbox: dict[str, Any]) -> Iterator[Play]:
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    register()

    def run(policy: Says, turns: int = 8, wall_s: float = 240.0) -> Rollout:
        sizes = [f"budget.turns={turns}", f"budget.wall_s={wall_s}", "budget.reply_tokens=1000", "max_tokens=128000"]
        with initialize_config_dir(str(data_dir("conf")), version_base="1.3"):
            config = compose("config", ["+experiment=main", "scale=debug", f"harness=[{request.param}]", *sizes])
        chosen: Any = OmegaConf.to_container(config.harness[request.param], resolve=True)
        with ExitStack() as stack:
            plain = Bubblewrap()
            one, boxes = arena(chosen, sandbox, plain, stack)
            return Episode(one, boxes, SandboxGrader(plain), retries=0)(policy, TASK, 0, 1)

    yield run
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not any(MARK.encode() in command for command in commands)


def stop(rollout: Rollout) -> Stop | None:
    return rollout.trajectory.stop if rollout.trajectory else None


def test_a_task_is_solved_and_every_call_recorded(play: Play) -> None:
    policy = Says(does(WORK), says("done"))
    rollout = play(policy)
    assert (rollout.outcome, rollout.reward) == (Outcome.SCORED, 1.0), rollout
    assert rollout.trajectory is not None and len(rollout.trajectory.turns) == policy.asked == 2
    assert rollout.trajectory.turns[0].command == WORK


def test_a_policy_that_never_stops_is_out_of_turns(play: Play) -> None:
    rollout = play(Says(does("echo {n}")), turns=4)
    assert (rollout.outcome, rollout.reward, stop(rollout)) == (Outcome.AGENT_FAILED, 0.0, Stop.TURNS), rollout


def test_a_policy_that_breaks_gives_no_reward(play: Play) -> None:
    rollout = play(Says(does(WORK), breaks))
    assert (rollout.outcome, rollout.reward) == (Outcome.INFRASTRUCTURE_FAILED, None), rollout
    assert "the engine is gone" in rollout.error


def test_a_policy_that_stalls_is_out_of_time(play: Play) -> None:
    never = threading.Event()
    try:
        rollout = play(Says(lambda request, n: str(never.wait(100))), wall_s=40.0)
    finally:
        never.set()
    assert (rollout.outcome, rollout.reward, stop(rollout)) == (Outcome.AGENT_FAILED, 0.0, Stop.TIME), rollout


def test_malformed_calls_earn_nothing(play: Play) -> None:
    rollout = play(Says(does("", nonsense=1), says('<tool_call>{"name": "bash", "argu')))
    assert rollout.reward == 0.0, rollout
    assert rollout.outcome in (Outcome.SCORED, Outcome.AGENT_FAILED)
