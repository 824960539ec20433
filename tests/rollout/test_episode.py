"""rollout: one trial and many, in real boxes, with the four outcomes kept apart."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest

from clawloop.harness.shell.shell import Shell
from clawloop.policy.scripted import ScriptedPolicy
from clawloop.protocols import InfrastructureError, Sandbox
from clawloop.rollout.collect import Collect
from clawloop.rollout.episode import Episode
from clawloop.rollout.grade import SandboxGrader
from clawloop.sandbox.bubblewrap import Bubblewrap
from clawloop.types import (
    Card,
    Completion,
    Contract,
    Deliverable,
    Limits,
    Outcome,
    Request,
    Rollout,
    Stop,
    Task,
    Verifier,
    Workspace,
)

CHECK = """
import json
key = json.load(open("key.json"))
try:
    seen = open("work/n.txt").read().strip()
    reason = None if seen == key else "wrong_value"
except FileNotFoundError:
    reason = "missing"
print(json.dumps({"fields": {"n": reason}}))
"""
CARD = Card("capability", "audit/analysis", "analysis", "hives", 0, "text", 1, "l1")


def task(identity: str = "t1", program: str = CHECK) -> Task:
    workspace = Workspace({"a.txt": b"x\ny\n"})
    contract = Contract((), (Deliverable("n.txt", "text", {"n": "integer"}),))
    return Task(identity, "Count.", workspace, Verifier(program, '"2"', 5.0), contract, CARD)


def says(command: str, slip: float = 0.0) -> ScriptedPolicy:
    return ScriptedPolicy([{"when": "Count", "say": f"```bash\n{command}\n```"}], slip=slip)


@pytest.fixture(scope="module")
def episode() -> Episode:
    boxes = Bubblewrap()
    return Episode(Shell(max_turns=3), boxes, SandboxGrader(boxes))


def test_right_and_wrong_are_scored(episode: Episode) -> None:
    right = episode(says("wc -l < a.txt > n.txt"), task(), 0, 1)
    assert (right.outcome, right.reward) == (Outcome.SCORED, 1.0)
    wrong = episode(says("echo 3 > n.txt"), task(), 1, 1)
    assert (wrong.outcome, wrong.reward) == (Outcome.SCORED, 0.0)
    assert wrong.verdict is not None
    assert wrong.verdict.fields[0].reason == "wrong_value"


def test_the_trace_is_the_bytes_that_were_said(episode: Episode) -> None:
    rollout = episode(says("wc -l < a.txt > n.txt"), task(), 0, 1)
    assert rollout.trajectory is not None
    (trace,) = rollout.trajectory.traces
    said = bytes(i for i, m in zip(trace.ids, trace.mask, strict=True) if m and i < 256)
    assert said == b"```bash\nwc -l < a.txt > n.txt\n```done"
    assert sum(i == 256 and m for i, m in zip(trace.ids, trace.mask, strict=True)) == 2


def test_out_of_turns_is_a_failure_even_where_the_work_is_right() -> None:
    boxes = Bubblewrap()
    rollout = Episode(Shell(max_turns=1), boxes, SandboxGrader(boxes))(says("echo 2 > n.txt"), task(), 0, 1)
    assert (rollout.outcome, rollout.reward) == (Outcome.AGENT_FAILED, 0.0)
    assert rollout.trajectory is not None
    assert rollout.trajectory.stop is Stop.TURNS


def test_a_broken_verifier_gives_no_reward(episode: Episode) -> None:
    rollout = episode(says("echo 2 > n.txt"), task(program="raise SystemExit('no')"), 0, 1)
    assert (rollout.outcome, rollout.reward) == (Outcome.GRADER_FAILED, None)
    assert rollout.error


class Breaks:
    """Boxes that cannot be opened the first `times` times."""

    def __init__(self, times: int) -> None:
        self.left, self.boxes = times, Bubblewrap()

    @contextmanager
    def open(
        self, workspace: Workspace, limits: Limits | None = None, *, hostname: str = "box", on_disk: bool = False
    ) -> Iterator[Sandbox]:
        self.left -= 1
        if self.left >= 0:
            raise InfrastructureError("The box did not open.")
        with self.boxes.open(workspace, limits, hostname=hostname, on_disk=on_disk) as box:
            yield box


def test_infrastructure_failures_are_tried_again_and_never_rewarded() -> None:
    for times, outcome, reward in ((2, Outcome.SCORED, 1.0), (3, Outcome.INFRASTRUCTURE_FAILED, None)):
        boxes = Breaks(times)
        rollout = Episode(Shell(max_turns=3), boxes, SandboxGrader(boxes.boxes), retries=2)(
            says("echo 2 > n.txt"), task(), 0, 1
        )
        assert (rollout.outcome, rollout.reward) == (outcome, reward)


class Memory:
    """A journal in memory."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str, int], Rollout] = {}

    def find(self, at: str, task_id: str, index: int) -> Rollout | None:
        return self.kept.get((at, task_id, index))

    def add(self, at: str, rollout: Rollout) -> None:
        assert (at, rollout.task_id, rollout.index) not in self.kept
        self.kept[at, rollout.task_id, rollout.index] = rollout


def rewards(groups: tuple[object, ...]) -> list[Mapping[str, object]]:
    return [{"task": g.task.id, "rewards": g.rewards} for g in groups]  # type: ignore[attr-defined]


def test_groups_do_not_depend_on_workers_and_a_journal_repeats_nothing(episode: Episode) -> None:
    tasks = tuple(task(f"t{i}") for i in range(4))
    policy = says("echo 2 > n.txt", slip=0.5)
    journal, other = Memory(), Memory()
    one = Collect(episode, journal, 1, 7)(policy, tasks, 4, "k1/admission")
    many = Collect(episode, other, 8, 7)(policy, tasks, 4, "k1/admission")
    assert rewards(one) == rewards(many)
    assert 0 < sum(g.passes for g in one) < 16
    half = Memory()
    half.kept = dict(list(journal.kept.items())[:9])
    played: list[tuple[str, int]] = []

    def counted(policy: ScriptedPolicy, task: Task, index: int, seed: int) -> Rollout:
        played.append((task.id, index))
        return episode(policy, task, index, seed)

    again = Collect(counted, half, 8, 7)(policy, tasks, 4, "k1/admission")  # type: ignore[arg-type]
    assert rewards(again) == rewards(one)
    assert len(played) == 7


def test_which_trials_are_played_does_not_depend_on_workers_where_a_task_may_end_early(episode: Episode) -> None:
    tasks = tuple(task(f"t{i}") for i in range(6))
    policy = says("echo 2 > n.txt", slip=0.2)
    journals = [Memory(), Memory(), Memory()]

    def wanted(rewards: Sequence[float | None]) -> int:
        return max(min(3 - sum(r == 1.0 for r in rewards), 5 - len(rewards)), 0)

    one = Collect(episode, journals[0], 1, 7)(policy, tasks, 5, "k1/admission", wanted)
    many = Collect(episode, journals[1], 8, 7)(policy, tasks, 5, "k1/admission", wanted)
    assert rewards(one) == rewards(many) and journals[0].kept.keys() == journals[1].kept.keys()
    assert 18 < len(journals[0].kept) < 30
    journals[2].kept = dict(list(journals[0].kept.items())[1::2])
    again = Collect(episode, journals[2], 8, 7)(policy, tasks, 5, "k1/admission", wanted)
    assert rewards(again) == rewards(one) and journals[2].kept.keys() == journals[0].kept.keys()


def test_phases_and_seeds_give_other_noise(episode: Episode) -> None:
    tasks = tuple(task(f"t{i}") for i in range(4))
    policy = says("echo 2 > n.txt", slip=0.5)
    base = rewards(Collect(episode, Memory(), 8, 7)(policy, tasks, 4, "k1/admission"))
    assert rewards(Collect(episode, Memory(), 8, 7)(policy, tasks, 4, "k2/admission")) != base
    assert rewards(Collect(episode, Memory(), 8, 8)(policy, tasks, 4, "k1/admission")) != base


class Hangs:
    """A policy that never answers after its first reply."""

    version = "hangs"

    def __init__(self) -> None:
        self.asked, self.over = 0, threading.Event()

    def complete(self, request: Request) -> Completion:
        self.asked += 1
        if self.asked > 1:
            self.over.wait(60)
        return Completion("```bash\necho 2 > n.txt\n```", (), (1,), (0.0,), "stop")


def test_an_engine_that_hangs_gives_no_reward_in_bounded_time() -> None:
    boxes, policy, began = Bubblewrap(), Hangs(), time.monotonic()
    rollout = Episode(Shell(max_turns=3), boxes, SandboxGrader(boxes), retries=1, reply_s=0.5)(policy, task(), 0, 1)
    policy.over.set()
    assert (rollout.outcome, rollout.reward) == (Outcome.INFRASTRUCTURE_FAILED, None)
    assert rollout.error == "the engine hangs: it gave no reply in 0.5 s (budget.reply_s)."
    assert policy.asked == 3 and time.monotonic() - began < 15


class Machine:
    """Plays trials without a box; which of them break is told by the number of the trial."""

    def __init__(self, broken: Callable[[int], bool]) -> None:
        self.broken, self.played, self.lock = broken, 0, threading.Lock()

    def __call__(self, policy: ScriptedPolicy, task: Task, index: int, seed: int) -> Rollout:
        with self.lock:
            self.played += 1
            broken = self.broken(self.played)
        if broken:
            return Rollout(task.id, index, Outcome.INFRASTRUCTURE_FAILED, None, None, None, "no memory")
        return Rollout(task.id, index, Outcome.SCORED, 1.0, None, None)


def test_a_machine_that_breaks_every_trial_ends_the_run_in_words_and_burns_no_tasks() -> None:
    tasks = tuple(task(f"t{i}") for i in range(50))
    machine, journal = Machine(lambda n: n > 20), Memory()
    with pytest.raises(InfrastructureError, match=r"trials in a row broke .*; the last: no memory\."):
        Collect(machine, journal, 4, 7)(says(""), tasks, 4, "k1/admission")  # type: ignore[arg-type]
    assert 28 <= machine.played <= 32
    kept = len(journal.kept)
    assert 20 <= kept < 24  # but for those that ended before the last that worked, none that broke is kept
    mended = Machine(lambda n: False)
    groups = Collect(mended, journal, 4, 7)(says(""), tasks, 4, "k1/admission")  # type: ignore[arg-type]
    assert mended.played == 200 - kept and sum(len(group.rewards) for group in groups) == 200 - (kept - 20)


def test_failures_between_which_something_works_are_kept_and_stop_nothing() -> None:
    tasks = tuple(task(f"t{i}") for i in range(20))
    machine, journal = Machine(lambda n: n % 6 > 0), Memory()
    groups = Collect(machine, journal, 4, 7)(says(""), tasks, 4, "k1/admission")  # type: ignore[arg-type]
    assert machine.played == len(journal.kept) == 80
    assert sum(len(group.rewards) for group in groups) == 13


def test_a_row_of_failures_is_counted_over_the_phases_of_a_run() -> None:
    collect = Collect(Machine(lambda n: True), Memory(), 4, 7)  # type: ignore[arg-type]
    for phase in ("probe/0", "k1/admission"):
        collect(says(""), (task("a"),), 3, phase)
    with pytest.raises(InfrastructureError, match="9 trials in a row"):
        collect(says(""), (task("b"),), 3, "k1/held_out")


def test_a_phase_of_which_nothing_worked_is_not_taken_for_one_that_ended() -> None:
    journal = Memory()
    with pytest.raises(InfrastructureError, match="4 trials in a row"):
        Collect(Machine(lambda n: True), journal, 4, 7)(says(""), (task("a"),), 4, "probe/0")  # type: ignore[arg-type]
    assert not journal.kept
