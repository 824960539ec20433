"""An answer that is remembered from the generator's next task."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from clawloop.rollout.grade import SandboxGrader
from clawloop.sandbox.bubblewrap import Bubblewrap
from clawloop.types import Candidate, Finding
from clawloop.validation.check.oracle import Oracle
from clawloop.validation.check.replay import Replay
from clawloop.validation.check.trivial import Trivial

Make = Callable[..., Candidate]

ONE_ANSWER = """
task["answer"] = {"total": 77}
task["oracle"] = ["echo '{\\"total\\": 77}' > total.json"]
"""
OTHER_NAMES = """
name, key = f"n{sys.argv[1]}.json", f"k{sys.argv[1]}"
task["answer"] = {key: 77}
task["contract"]["deliverables"] = [{"path": name, "form": "json", "fields": {key: "integer"}}]
task["oracle"] = ["echo '{\\"%s\\": 77}' > %s" % (key, name)]
task["verifier"] = VERIFIER.replace("total.json", name).replace("total", key)
"""
ONE_STATE = """
task["files"] = {f"log{sys.argv[1]}.txt": "x", "old.txt": "y"}
task["contract"]["deliverables"] = [{"path": "workspace", "form": "state"}]
task["oracle"] = ["mkdir done && mv old.txt done/new.txt"]
task["verifier"] = (
    "import json, os\\n"
    "ok = os.path.exists('work/done/new.txt') and not os.path.exists('work/old.txt')\\n"
    "print(json.dumps({'fields': {'s': None if ok else 'no'}}))"
)
"""


def test_a_sound_candidate_passes(make: Make, boxes: Bubblewrap, grader: SandboxGrader) -> None:
    assert Replay(boxes, grader)(make()) == Finding("replay", True)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (ONE_ANSWER, "the deliverables of any of the next 3 seeds pass"),
        (OTHER_NAMES, "the values of any of the next 3 seeds pass"),
        (ONE_STATE, "the final workspace of any of the next 3 seeds pass"),
    ],
)
def test_what_the_next_task_gives_away_is_found(
    make: Make, boxes: Bubblewrap, grader: SandboxGrader, more: str, says: str
) -> None:
    candidate = make(more)
    assert Oracle(boxes, grader)(candidate).passed
    assert Trivial(grader)(candidate).passed
    finding = Replay(boxes, grader)(candidate)
    assert not finding.passed and says in finding.reason


@pytest.mark.parametrize(
    "more",
    [
        "assert sys.argv[1] == '5'",
        ONE_ANSWER + "if sys.argv[1] == '8': task['oracle'] = ['true']",  # the same by chance, twice
        "task = task if sys.argv[1] == '5' else {'files': {}}",
        "task['files'] = task['files'] if sys.argv[1] == '5' else {'../x': ''}",
        "task['oracle'] = task['oracle'] if sys.argv[1] == '5' else ['sleep 30']",
    ],
)
def test_a_next_task_that_is_none_gives_nothing_away(
    make: Make, boxes: Bubblewrap, grader: SandboxGrader, more: str
) -> None:
    assert Replay(boxes, grader, command_s=1.0)(make(more)).passed


def test_a_verifier_that_breaks_on_it_is_found(make: Make, boxes: Bubblewrap, grader: SandboxGrader) -> None:
    sound = make()
    assert sound.task is not None
    verifier = replace(sound.task.verifier, program="1 / 0")
    broken = replace(sound, task=replace(sound.task, verifier=verifier))
    assert (
        "what solves seed 6 breaks the verifier: the verifier of k1-0000 ended with code 1"
        in Replay(boxes, grader)(broken).reason
    )


def test_it_tries_one_seed_at_least(boxes: Bubblewrap, grader: SandboxGrader) -> None:
    with pytest.raises(ValueError, match=r"seeds must be at least 1"):
        Replay(boxes, grader, seeds=0)
