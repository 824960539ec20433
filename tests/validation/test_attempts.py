"""The oracle must pass, and attempts without work must not."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from clawloop.protocols import InfrastructureError
from clawloop.rollout.grade import SandboxGrader
from clawloop.sandbox.bubblewrap import Bubblewrap
from clawloop.types import Candidate, Snapshot, Task, Verdict
from clawloop.validation.check.oracle import Oracle
from clawloop.validation.check.trivial import Trivial

Make = Callable[..., Candidate]
READ = "import json, os\ndef read(p):\n    return open('work/' + p).read() if os.path.exists('work/' + p) else None\n"


def verified(candidate: Candidate, wrong: str) -> Candidate:
    """The candidate with a verifier that gives a reason where the expression is true."""
    assert candidate.task is not None
    program = f"{READ}print(json.dumps({{'fields': {{'f': 'wrong_value' if {wrong} else None}}}}))"
    return replace(candidate, task=replace(candidate.task, verifier=replace(candidate.task.verifier, program=program)))


def test_a_sound_candidate_passes(make: Make, boxes: Bubblewrap, grader: SandboxGrader) -> None:
    assert Oracle(boxes, grader)(make()).passed
    assert Trivial(grader)(make()).passed


@pytest.mark.parametrize(
    ("oracle", "says"),
    [
        ("echo '{\"total\": 1}' > total.json", "total: wrong_value"),
        ("true", "total: missing"),
        ("nosuchtool > x", "ended with code 127"),
        ("sleep 30", "stopped (timeout)"),
    ],
)
def test_a_wrong_oracle_fails(make: Make, boxes: Bubblewrap, grader: SandboxGrader, oracle: str, says: str) -> None:
    finding = Oracle(boxes, grader, command_s=1.0)(replace(make(), oracle=(oracle,)))
    assert not finding.passed and says in finding.reason


def test_an_oracle_may_take_several_commands(make: Make, boxes: Bubblewrap, grader: SandboxGrader) -> None:
    sound = make()
    assert Oracle(boxes, grader)(replace(sound, oracle=("false", *sound.oracle))).passed
    assert not Oracle(boxes, grader)(replace(sound, oracle=(*sound.oracle, "rm total.json"))).passed


def test_a_broken_verifier_fails_both(make: Make, boxes: Bubblewrap, grader: SandboxGrader) -> None:
    broken = verified(make(), "1 / 0")
    assert "ended with code 1" in Oracle(boxes, grader)(broken).reason
    assert "ended with code 1" in Trivial(grader)(broken).reason


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("not read('hives.csv')", "an untouched workspace passes"),
        ("read('total.json') is None", "an empty deliverable passes"),
        ("not (read('total.json') or '').strip()", "a blank deliverable passes"),
        ("read('hives.csv')", "an emptied workspace passes"),
        ("json.loads(read('total.json') or '{}') != {'total': 0}", "0 everywhere passes"),
        ("json.loads(read('total.json') or '{}') != {'total': 1}", "1 everywhere passes"),
        ("json.loads(read('total.json') or '{}') != {'total': []}", "an empty list everywhere passes"),
        (
            "json.loads(read('total.json') or '{}') != {'total': 30}",
            "of the inputs (30, open) everywhere passes",
        ),
        ("'h3' not in (read('total.json') or '')", "a copy of hives.csv passes"),
    ],
)
def test_what_needs_no_work_is_found(make: Make, grader: SandboxGrader, wrong: str, says: str) -> None:
    finding = Trivial(grader)(verified(make(), wrong))
    assert not finding.passed and says in finding.reason


def test_a_verifier_that_breaks_on_an_empty_deliverable_is_found(make: Make, grader: SandboxGrader) -> None:
    finding = Trivial(grader)(verified(make(), "read('total.json') is None or json.loads(read('total.json')) != 7"))
    assert finding.reason.startswith("an empty deliverable: the verifier of k1-0000 ended with code 1")


class Recorded:
    """A grader that fails everything and keeps what it was shown."""

    def __init__(self) -> None:
        self.seen: list[Snapshot] = []

    def __call__(self, task: Task, snapshot: Snapshot) -> Verdict:
        self.seen.append(snapshot)
        return Verdict(False, ())


def test_the_most_similar_inputs_are_copied(make: Make) -> None:
    grade = Recorded()
    more = """
task["files"] |= {"a.txt": "total", "in/b.json": "{}", "in/c.json": '{"total": 2}', "total.json": "old"}"""
    assert Trivial(grade, copies=2)(make(more)).passed
    copies = [snapshot.files.get("total.json") for snapshot in grade.seen]
    assert copies[:4] == [b"old", None, b"", b"{}\n"]
    assert copies[-2:] == [b'{"total": 2}', b"{}"]
    assert grade.seen[0].directories == ("in",)


def test_constants_have_the_types_of_the_fields(make: Make) -> None:
    grade = Recorded()
    items = [
        {"path": "a.json", "form": "json", "fields": {"n": "number", "who": "string"}},
        {"path": "b.csv", "form": "csv", "fields": {"n": "integer", "rows": "rows"}},
    ]
    more = f"task['files'] = {{'in.txt': '007 ash 007 ash fir 3'}}; task['contract']['deliverables'] = {items!r}"
    assert Trivial(grade, copies=1)(make(more)).passed
    seen = [(s.files.get("a.json"), s.files.get("b.csv")) for s in grade.seen]
    assert seen[4:8] == [
        (b'{"n": 0, "who": 0}', b"0\n0\n"),
        (b'{"n": 1, "who": 1}', b"1\n1\n"),
        (b'{"n": [], "who": []}', b"\n\n"),
        (b'{"n": 7, "who": "ash"}', b"7\nash\n"),
    ]


def test_no_attempt_is_graded_twice(make: Make) -> None:
    grade = Recorded()
    assert Trivial(grade, copies=2)(make("task['files'] = {'a.json': '{}\\n', 'b.json': '{}\\n'}")).passed
    seen = [sorted(snapshot.files.items()) for snapshot in grade.seen]
    assert all(seen.count(one) == 1 for one in seen)


def test_a_state_is_tried_untouched_and_emptied_only(make: Make) -> None:
    grade = Recorded()
    assert Trivial(grade)(make("task['contract']['deliverables'] = [{'path': 'old', 'form': 'state'}]")).passed
    assert [set(snapshot.files) for snapshot in grade.seen] == [{"hives.csv"}, set()]


def test_a_broken_box_is_no_finding(make: Make) -> None:
    def broken(task: Task, snapshot: Snapshot) -> Verdict:
        raise InfrastructureError("the box is gone")

    with pytest.raises(InfrastructureError):
        Trivial(broken)(make())
