"""A Docker engine that is killed while agents work in its boxes: the real one, of this module alone."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clawloop.harness.shell.shell import Shell
from clawloop.protocols import InfrastructureError
from clawloop.rollout.collect import Collect
from clawloop.rollout.episode import Episode
from clawloop.rollout.grade import SandboxGrader
from clawloop.sandbox.docker.docker import Docker
from clawloop.store.layout import Layout
from clawloop.store.ledger import Ledger
from clawloop.types import Completion, Outcome, Request, Rollout, Task
from tests.counting import Journal

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("nothing_left")]
SLOW = f"sleep 62.{os.getpid():07}"
SOLVES = "wc -l < a.txt > n.txt"


class Waits:
    """Has each box wait until the engine is killed, which happens in mid-command, and solves the task after that."""

    version = "waits"

    def __init__(self, works: Any, kill: Callable[[], None], then: Callable[[], object]) -> None:
        self.works, self.kill, self.then = works, kill, then
        self.tries, self.killed = 0, threading.Event()
        self.killing = threading.Thread(target=self._kill, daemon=True)
        self.killing.start()

    def complete(self, request: Request) -> Completion:
        self.tries += not any(message.role == "assistant" for message in request.messages)
        said: Completion = self.works(SOLVES if self.killed.is_set() else SLOW).complete(request)
        return said

    def _kill(self) -> None:
        while not _runs(SLOW):
            time.sleep(0.05)
        self.kill()
        self.killed.set()
        self.then()


def _runs(command: str) -> bool:
    wanted = command.encode().replace(b" ", b"\0") + b"\0"
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes() == wanted:
                return True
        except (FileNotFoundError, ProcessLookupError):
            continue
    return False


@pytest.fixture
def boxes(own_engine: Any) -> Iterator[Docker]:
    boxes = Docker(host=own_engine.start(), warm=1)
    yield boxes
    boxes.close()


def test_an_engine_that_comes_back_costs_nothing(own_engine: Any, boxes: Docker, task: Task, works: Any) -> None:
    policy = Waits(works, own_engine.kill, own_engine.start)
    rollout = Episode(Shell(command_s=90.0), boxes, SandboxGrader(boxes), retries=5)(policy, task, 0, 1)
    policy.killing.join()
    assert (rollout.outcome, rollout.reward) == (Outcome.SCORED, 1.0), rollout
    assert policy.tries == 2


def test_the_trial_of_an_engine_that_stays_dead_has_no_reward_and_the_next_ones_go_on_with_it(
    own_engine: Any, boxes: Docker, task: Task, works: Any
) -> None:
    episode = Episode(Shell(command_s=90.0), boxes, SandboxGrader(boxes), retries=1)

    def play(policy: Any, task: Task, index: int, seed: int) -> Rollout:
        rollout = episode(policy, task, index, seed)
        if index == 0:
            own_engine.start()
        return rollout

    policy, journal = Waits(works, own_engine.kill, bool), Journal()
    (group,) = Collect(play, journal, 1, 0)(policy, (task,), 3, "probe/0")
    first, *others = group.rollouts
    assert (first.outcome, first.reward) == (Outcome.INFRASTRUCTURE_FAILED, None)
    assert f"the Docker engine at {boxes.engine.address} did not" in first.error
    assert [rollout.reward for rollout in others] == [1.0, 1.0]
    assert journal.kept == list(group.rollouts)


def test_an_engine_that_stays_dead_ends_the_phase_in_words(
    own_engine: Any, boxes: Docker, task: Task, works: Any
) -> None:
    policy, journal = Waits(works, own_engine.kill, bool), Journal()
    episode = Episode(Shell(command_s=90.0), boxes, SandboxGrader(boxes), retries=1)
    with pytest.raises(
        InfrastructureError, match=r"^\d trials in a row broke on this machine .* the Docker engine at "
    ):
        Collect(episode, journal, 2, 0)(policy, (task,), 20, "probe/0")
    assert policy.killed.is_set() and not journal.kept


def test_a_run_whose_engine_is_killed_ends_in_one_sentence_and_goes_on_when_it_is_back(
    own_engine: Any, command_line: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    small = ("iterations=1", "candidates=4", "rollouts=2", "band.high=1", "probe.tasks=4", "check=[oracle]")
    boxes = ("sandbox=docker", f"sandbox.host={own_engine.start()}", "sandbox.warm=2")
    words = ("+experiment=main", "scale=debug", "tracker=[jsonl]", f"resume={tmp_path}", *small, *boxes)

    def played() -> dict[tuple[str, str, int], Rollout]:
        if not Layout(tmp_path).ledger.exists():
            return {}
        ledger = Ledger(Layout(tmp_path).ledger)
        phases = ("probe/0", "k1/admission", "probe/1")
        return {(at, one.task_id, one.index): one for at in phases for one in ledger.rollouts(at)}

    def kill() -> None:
        while len(played()) < 3:
            time.sleep(0.05)
        own_engine.kill()

    killing = threading.Thread(target=kill, daemon=True)
    killing.start()
    code, _, error = command_line(*words)
    assert not killing.is_alive()
    assert code == 1 and "Traceback" not in error
    (line,) = [line for line in error.splitlines() if "the Docker engine at" in line]
    assert line.endswith(f"The same command with resume={tmp_path} goes on."), error
    before = played()
    assert len(before) >= 3
    own_engine.start()
    code, _, error = command_line(*words)
    assert code == 0, error
    after = played()
    assert len(after) > len(before) and all(after[key] == rollout for key, rollout in before.items())
    broken = [one for one in after.values() if one.outcome is Outcome.INFRASTRUCTURE_FAILED]
    assert all(one.reward is None for one in broken) and len(broken) < 8  # twice as many as workers, and the run ends
    assert {one.outcome for one in after.values()} <= {Outcome.SCORED, Outcome.INFRASTRUCTURE_FAILED}
