"""rollout: one trial and many, in real boxes, with the four outcomes kept apart."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest

from clawloop.harness.shell.shell import Shell
from clawloop.policy.scripted import ScriptedPolicy
from clawloop.protocols import InfrastructureError, Sandbox
from clawloop.rollout.collect import Collect
from clawloop.rollout.episode import Episode
from clawloop.rollout.grade import SandboxGrader
from clawloop.sandbox.bubblewrap import Bubblewrap
from clawloop.types import Card, Contract, Deliverable, Limits, Outcome, Rollout, Stop, Task, Verifier, Workspace

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
