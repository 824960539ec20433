"""harness/by_task: each task has one of the harnesses, whoever asks and in whatever order they are named."""

from collections import Counter

import pytest

from clawloop.harness.by_task import ByTask
from clawloop.harness.react.react import React
from clawloop.harness.shell.shell import Shell
from clawloop.harness.tools.tools import Tools
from clawloop.harness.xml.xml import Xml
from clawloop.policy.scripted import ScriptedPolicy
from clawloop.rollout.collect import Collect
from clawloop.rollout.episode import Episode
from clawloop.rollout.grade import SandboxGrader
from clawloop.sandbox.bubblewrap import Bubblewrap
from clawloop.types import Card, Contract, Task, Verifier, Workspace

TASKS = [f"k1-{number}" for number in range(600)]


def names(**harnesses):
    chooser = ByTask(harnesses)
    return [chooser.of(task).name for task in TASKS]


def test_one_harness_has_every_task(play):
    assert set(names(shell=Shell())) == {"shell"}
    played, _, _ = play(ByTask({"shell": Shell()}), "```bash\nls\n```", "done")
    assert (played.harness, len(played.turns)) == ("shell", 2)


def test_tasks_are_shared_out_evenly_and_always_alike():
    three = names(shell=Shell(), tools=Tools(), xml=Xml())
    assert all(160 < count < 240 for count in Counter(three).values())
    assert three == names(xml=Xml(), shell=Shell(), tools=Tools())
    four = names(shell=Shell(), tools=Tools(), xml=Xml(), react=React())
    assert all(old == new or new == "react" for old, new in zip(three, four, strict=True))


def test_none_and_two_of_one_name_are_refused():
    with pytest.raises(ValueError, match=r"harness: there is none; choose"):
        ByTask({})
    with pytest.raises(ValueError, match="shell and shell_brief are both shell in the record; choose one"):
        ByTask({"shell": Shell(), "shell_brief": Shell()})


class Nothing:
    """A journal that remembers nothing."""

    def find(self, at, task_id, index):
        return None

    def add(self, at, rollout):
        assert rollout.task_id


def test_a_group_of_trials_is_of_one_harness_in_every_phase():
    shared, boxes = ByTask({"shell": Shell(max_turns=1), "react": React(max_turns=1)}), Bubblewrap()
    card = Card("capability", "audit", "analysis", "hives", 0, "text", 1, "l1")
    tasks = tuple(
        Task(name, "Work.", Workspace({}), Verifier("", ""), Contract((), ()), card) for name in map(str, range(8))
    )
    collect = Collect(Episode(shared, boxes, SandboxGrader(boxes)), Nothing(), 4, 0)
    policy = ScriptedPolicy(slip=0.0)
    seen = [
        [{rollout.trajectory.harness for rollout in group.rollouts} for group in collect(policy, tasks, 3, at)]
        for at in ("k1/admission", "k1/held_out")
    ]
    assert seen[0] == seen[1] == [{shared.of(task.id).name} for task in tasks]
    assert set.union(*seen[0]) == {"shell", "react"}
