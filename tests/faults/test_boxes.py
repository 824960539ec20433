"""A box, a program in it, or the gateway beside it that is killed in mid-episode: real ones, from outside."""

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from clawloop.build.players import arena
from clawloop.gateway.server import Gateway
from clawloop.harness.shell.shell import Shell
from clawloop.protocols import Sandboxes
from clawloop.rollout.episode import Episode
from clawloop.rollout.grade import SandboxGrader
from clawloop.sandbox.bubblewrap import Bubblewrap
from clawloop.types import Outcome, Rollout, Stop, Task

SLOW = "sleep 61; wc -l < a.txt > n.txt"
SOLVES = "wc -l < a.txt > n.txt"


@pytest.fixture(params=["bubblewrap", pytest.param("docker", marks=pytest.mark.docker)])
def sandbox(request: pytest.FixtureRequest) -> dict[str, Any]:
    if request.param == "docker":
        request.getfixturevalue("docker_engine")
    request.getfixturevalue("nothing_left")
    kinds = {"bubblewrap": "bubblewrap.Bubblewrap", "docker": "docker.docker.Docker"}
    return {"_target_": f"clawloop.sandbox.{kinds[request.param]}"} | ({"warm": 0} if request.param == "docker" else {})


def sleepers() -> list[int]:
    """The processes that are SLOW's sleep, in boxes of any kind."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes() == b"sleep\x0061\x00":
                found.append(int(path.parent.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def ancestors(pid: int) -> list[int]:
    """From a process up to, and without, this one or the first."""
    found = [pid]
    while (above := parent(found[-1])) not in (0, 1, os.getpid()):
        found.append(above)
    return found


class Killer(threading.Thread):
    """Kills what `choose` picks of the ancestors of each SLOW that comes up in a box, at most `times`."""

    def __init__(self, times: int, choose: Callable[[list[int]], int]) -> None:
        super().__init__(daemon=True)
        self.times, self.choose, self.killed, self.over = times, choose, 0, threading.Event()

    def run(self) -> None:
        seen: set[int] = set(sleepers())
        while self.killed < self.times and not self.over.wait(0.1):
            for pid in set(sleepers()) - seen:
                seen.add(pid)
                os.kill(self.choose(ancestors(pid)), signal.SIGKILL)
                self.killed += 1

    def __enter__(self) -> "Killer":
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.over.set()
        self.join()


def comm(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


class Twice:
    """Says the slow commands in the first tries, and then the quick one."""

    version = "twice"

    def __init__(self, policy: Callable[[str], Any], slow: int) -> None:
        self.policy, self.slow, self.tries = policy, slow, 0

    def complete(self, request: Any) -> Any:
        if not any(message.role == "assistant" for message in request.messages):
            self.tries += 1
        return self.policy(SLOW if self.tries <= self.slow else SOLVES).complete(request)


@pytest.mark.parametrize(("kills", "reward"), [(1, 1.0), (9, None)], ids=["once", "always"])
def test_a_bubblewrap_that_is_killed_is_tried_again_and_never_a_failure(
    kills: int, reward: float | None, nothing_left: None, task: Task, works: Any
) -> None:
    def monitor(above: list[int]) -> int:
        return [pid for pid in above if comm(pid) == "bwrap"][-1]

    boxes = Bubblewrap()
    with Killer(kills, monitor) as killer:
        episode = Episode(Shell(command_s=90.0), boxes, SandboxGrader(boxes), retries=1)
        rollout = episode(Twice(works, kills), task, 0, 1)
    assert killer.killed == min(kills, 2)
    assert rollout.reward == reward, rollout
    assert rollout.outcome == (Outcome.SCORED if reward else Outcome.INFRASTRUCTURE_FAILED)
    assert reward or rollout.error == "bubblewrap failed: it said nothing"


@pytest.mark.docker
def test_a_container_that_is_killed_is_tried_again_and_never_a_failure(
    docker_engine: str, nothing_left: None, task: Task, works: Any
) -> None:
    import docker

    from clawloop.sandbox.docker.docker import Docker
    from clawloop.sandbox.docker.owner import LABEL, owner

    boxes, api = Docker(warm=0), docker.APIClient(docker_engine)

    def kill() -> None:
        """Twice, while the command sleeps."""
        for _ in range(2):
            while not (found := api.containers(filters={"label": f"{LABEL}={owner()}"})) or not sleepers():
                time.sleep(0.1)
            api.kill(found[0]["Id"])
            while found[0]["Id"] in [one["Id"] for one in api.containers(all=True)]:
                time.sleep(0.1)

    killing = threading.Thread(target=kill, daemon=True)
    killing.start()
    rollout = Episode(Shell(command_s=90.0), boxes, SandboxGrader(boxes), retries=1)(Twice(works, 2), task, 0, 1)
    killing.join(20)
    api.close()
    boxes.close()
    assert not killing.is_alive()
    assert (rollout.outcome, rollout.reward) == (Outcome.INFRASTRUCTURE_FAILED, None)
    assert "died" in rollout.error


@pytest.fixture
def play(sandbox: dict[str, Any], program: dict[str, Any], task: Task) -> Callable[..., Rollout]:
    """Plays the task in the harness that is a program; `gateway` is there meanwhile."""

    def run(policy: Any, retries: int = 0, **settings: Any) -> Rollout:
        with ExitStack() as stack:
            plain: Sandboxes = Bubblewrap()
            harness, boxes = arena(program | settings, sandbox, plain, stack)
            if close := getattr(boxes, "close", None):
                stack.callback(close)
            return Episode(harness, boxes, SandboxGrader(plain), retries)(policy, task, 0, 1)

    return run


def agent(above: list[int]) -> int:
    return next(pid for pid in above if b"agent.py\0" in Path(f"/proc/{pid}/cmdline").read_bytes())


@pytest.mark.parametrize(("kills", "reward"), [(1, 1.0), (9, None)], ids=["once", "always"])
def test_a_program_that_is_killed_is_tried_again_and_never_a_failure(
    kills: int, reward: float | None, play: Callable[..., Rollout], works: Any
) -> None:
    with Killer(kills, agent) as killer:
        policy = Twice(lambda command: works(command, calls=True), kills)
        rollout = play(policy, retries=1, wall_s=90.0)
    assert killer.killed == min(kills, 2)
    assert rollout.reward == reward, rollout
    assert rollout.outcome == (Outcome.SCORED if reward else Outcome.INFRASTRUCTURE_FAILED)
    assert reward or rollout.error == "harness own: the program was killed, and not for a limit of its box."


def test_a_program_that_uses_more_memory_than_its_box_has_did_that_itself(
    play: Callable[..., Rollout], works: Any
) -> None:
    crash = "import os, urllib.request as u; h = {'Authorization': 'Bearer ' + os.environ['KEY']}; "
    crash += 'b = b\'{"model": "m", "messages": [{"role": "user", "content": "x"}]}\'; '
    crash += "u.urlopen(u.Request(os.environ['URL'] + '/v1/chat/completions', b, h)).read(); "
    crash += "x = [b'x' * (1 << 24) for _ in range(99)]"
    rollout = play(works(), files={"agent.py": crash}, limits={"memory": 200 << 20, "tmp": 1 << 20})
    assert (rollout.outcome, rollout.reward) == (Outcome.AGENT_FAILED, 0.0), rollout
    assert rollout.trajectory is not None and rollout.trajectory.stop is Stop.CRASHED


@pytest.mark.parametrize("fault", ["thread", "socket"])
def test_a_gateway_that_is_killed_gives_no_reward(
    fault: str, play: Callable[..., Rollout], works: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Gateway] = []
    enter = Gateway.__enter__

    def kept(self: Gateway) -> Gateway:
        begun.append(self)
        return enter(self)

    monkeypatch.setattr(Gateway, "__enter__", kept)

    class Kills(works):  # type: ignore[misc, valid-type]
        """Answers, and then the gateway is gone before the program can ask again."""

        def complete(self, request: Any) -> Any:
            gateway = begun[-1]
            if fault == "socket":
                gateway._unix.unlink()  # type: ignore[union-attr]
            else:
                gateway._server.force_exit = gateway._server.should_exit = True
            return super().complete(request)

    rollout = play(Kills(SOLVES, SOLVES, calls=True))
    assert (rollout.outcome, rollout.reward) == (Outcome.INFRASTRUCTURE_FAILED, None), rollout
    assert rollout.error.startswith("the gateway is gone: its ")


def test_an_engine_that_hangs_at_the_gateway_is_no_episode_out_of_time(
    play: Callable[..., Rollout], task: Task, works: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    never = threading.Event()

    class Hangs(works):  # type: ignore[misc, valid-type]
        def complete(self, request: Any) -> Any:
            if any(message.role == "assistant" for message in request.messages):
                never.wait(60)
            return super().complete(request)

    monkeypatch.setattr(Episode.__init__, "__defaults__", (0, 9.0))  # seconds of a reply: more than the episode has
    rollout = play(Hangs(SOLVES, calls=True), wall_s=6.0)
    never.set()
    assert (rollout.outcome, rollout.reward) == (Outcome.INFRASTRUCTURE_FAILED, None), rollout
    assert "the engine hangs: it gave no reply in 9 s" in rollout.error
