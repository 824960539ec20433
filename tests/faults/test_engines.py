"""An engine that is killed or hangs: a real server in a process of its own, behind policy/endpoint."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clawloop.harness.shell.shell import Shell
from clawloop.policy.endpoint import EndpointPolicy
from clawloop.rollout.episode import Episode
from clawloop.rollout.grade import SandboxGrader
from clawloop.sandbox.bubblewrap import Bubblewrap
from clawloop.store.layout import Layout
from clawloop.store.ledger import Ledger
from clawloop.store.weights import find
from clawloop.types import Outcome, Rollout, Task

pytestmark = pytest.mark.usefixtures("nothing_left")
SERVER = """
import json, socket, sys, threading, time
port, manner, *texts = sys.argv[1:]
listener = socket.create_server(("127.0.0.1", int(port)), reuse_port=True)
print(listener.getsockname()[1], flush=True)

def serve(one):
    head, _, body = one.recv(1 << 20).partition(b"\\r\\n\\r\\n")
    length = int(head.lower().partition(b"content-length:")[2].split()[0])
    while len(body) < length:
        body += one.recv(1 << 20)
    turn = sum(message["role"] == "assistant" for message in json.loads(body)["messages"])
    message = {"role": "assistant", "content": texts[turn] if turn < len(texts) else "done"}
    said = json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode()
    head = b"HTTP/1.1 200 OK\\r\\ncontent-type: application/json\\r\\nconnection: close\\r\\ncontent-length: "
    if manner != "silent":
        one.sendall(head + str(len(said)).encode() + b"\\r\\n\\r\\n" + (said if manner == "whole" else said[:9]))
    print("asked", flush=True)
    while manner == "drips":
        one.sendall(b" ")
        time.sleep(0.2)
    if manner == "whole":
        one.close()
    else:
        time.sleep(100)

while True:
    threading.Thread(target=serve, args=listener.accept()[:1], daemon=True).start()
"""
SOLVES = "```bash\nwc -l < a.txt > n.txt\n```"
Start = Callable[..., tuple[subprocess.Popen[str], int]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a server that answers in a manner: its process, and its port."""
    begun: list[subprocess.Popen[str]] = []

    def one(manner: str, *texts: str, port: int = 0) -> tuple[subprocess.Popen[str], int]:
        command = [sys.executable, "-c", SERVER, str(port), manner, *texts]
        begun.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        return begun[-1], int(said(begun[-1]))

    yield one
    for process in begun:
        process.kill()
        process.communicate()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.fixture(scope="module")
def nano(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return find("nano", tmp_path_factory.mktemp("nano"))


@pytest.fixture
def play(nano: Path, task: Task) -> Callable[..., Rollout]:
    def run(port: int, reply_s: float = 20.0, **options: Any) -> Rollout:
        settings = {"retries": 1, "wait_s": 0.01, "timeout_s": 1.0, **options}
        policy = EndpointPolicy(nano, f"http://127.0.0.1:{port}/v1", "m", **settings)
        boxes = Bubblewrap()
        return Episode(Shell(max_turns=3), boxes, SandboxGrader(boxes), 0, reply_s)(policy, task, 0, 1)

    return run


def test_an_engine_that_is_killed_in_mid_reply_gives_no_reward(start: Start, play: Callable[..., Rollout]) -> None:
    server, port = start("stalls")
    killed = subprocess.Popen(["sh", "-c", f"sleep 0.5; kill -9 {server.pid}"])
    rollout = play(port, timeout_s=20.0)
    killed.wait()
    assert (server.wait(), said(server)) == (-signal.SIGKILL, "asked")
    assert (rollout.outcome, rollout.reward) == (Outcome.INFRASTRUCTURE_FAILED, None)
    assert "gave no answer in 2 tries" in rollout.error


def test_an_engine_that_comes_back_costs_nothing(start: Start, play: Callable[..., Rollout]) -> None:
    first, port = start("stalls")

    def replace() -> None:
        assert said(first) == "asked"
        first.kill()
        first.wait()
        start("whole", SOLVES, port=port)

    replacing = threading.Thread(target=replace)
    replacing.start()
    rollout = play(port, retries=5, wait_s=0.2, timeout_s=20.0)
    replacing.join()
    assert (rollout.outcome, rollout.reward) == (Outcome.SCORED, 1.0), rollout


@pytest.mark.parametrize(
    ("manner", "reason"),
    [
        ("silent", "gave no answer in 2 tries; the last: no answer in time."),
        ("stalls", "gave no answer in 2 tries; the last: no answer in time."),
        ("drips", "the engine hangs: it gave no reply in 4 s (budget.reply_s)."),
    ],
)
def test_an_engine_that_hangs_gives_no_reward_in_bounded_time(
    start: Start, play: Callable[..., Rollout], manner: str, reason: str
) -> None:
    _, port = start(manner)
    began = time.monotonic()
    rollout = play(port, reply_s=4.0)
    assert (rollout.outcome, rollout.reward) == (Outcome.INFRASTRUCTURE_FAILED, None)
    assert reason in rollout.error
    assert time.monotonic() - began < 15


def test_a_run_whose_engine_is_gone_ends_in_one_sentence_and_goes_on_when_it_is_back(
    start: Start, command_line: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    gone, port = start("whole")
    gone.kill()
    gone.wait()
    small = ("iterations=1", "candidates=4", "rollouts=2", "band.high=1", "probe.tasks=2", "check=[oracle]")
    chosen = ("policy=endpoint", "trainer=[]", f"policy.url=http://127.0.0.1:{port}/v1", "policy.retries=0")
    words = ("+experiment=main", "scale=debug", "tracker=[jsonl]", f"resume={tmp_path}", *small, *chosen)
    code, _, error = command_line(*words)
    assert code == 1 and "Traceback" not in error
    (line,) = [line for line in error.splitlines() if "trials in a row broke on this machine" in line]
    assert f"127.0.0.1:{port}" in line and line.endswith(f"The same command with resume={tmp_path} goes on.")
    assert not Ledger(Layout(tmp_path).ledger).rollouts("probe/0")
    start("whole", port=port)
    code, _, error = command_line(*words)
    assert code == 0, error
    ledger = Ledger(Layout(tmp_path).ledger)
    played = [rollout for at in ("probe/0", "k1/admission", "probe/1") for rollout in ledger.rollouts(at)]
    assert len(played) >= 8 and all(rollout.reward is not None for rollout in played)
