"""author model: whatever the loop model replies ends as a sound task or as a rejection with its reason."""

import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clawloop.report.summary import Iteration, iteration_row
from clawloop.rollout.grade import SandboxGrader
from clawloop.sandbox.bubblewrap import Bubblewrap
from clawloop.store.ledger import Ledger
from clawloop.synthesis.author.model import prompt
from clawloop.synthesis.author.model.model import Model
from clawloop.synthesis.difficulty.none import NoGrowth
from clawloop.synthesis.generator import candidate, run
from clawloop.synthesis.routine.capability import Capability
from clawloop.synthesis.synthesize import Synthesize
from clawloop.types import (
    Candidate,
    Card,
    Completion,
    DiagnosisReport,
    Message,
    Pattern,
    Proficiency,
    Request,
    RootCause,
    Screening,
)
from clawloop.validation.check.deterministic import Deterministic
from clawloop.validation.check.duplicate import Duplicate
from clawloop.validation.check.growth import Growth
from clawloop.validation.check.leakage import Leakage
from clawloop.validation.check.oracle import Oracle
from clawloop.validation.check.trivial import Trivial
from clawloop.validation.screen import Screen

BOXES = Bubblewrap()
GRADER = SandboxGrader(BOXES)
CHECKS: dict[str, Any] = {
    "deterministic": Deterministic(BOXES),
    "oracle": Oracle(BOXES, GRADER),
    "growth": Growth(BOXES, GRADER),
    "leakage": Leakage(),
    "trivial": Trivial(GRADER),
}
EXAMPLE, GROWN = prompt.text("example.py.txt"), prompt.text("grown.py.txt")
REPORT = DiagnosisReport.empty()


def card(name: str, form: str = "json", track: str = "analysis", growth: tuple[str, ...] = ()) -> Card:
    return Card("capability", f"audit/{track}", track, "hives", 0, form, 11, f"audit/hives/{name}", growth)


def good(number: int) -> str:
    """A sound program that differs from the other ones in structure: it has `number` more statements."""
    return EXAMPLE.replace("    due = {}\n", "    due = {}\n" + "    due.clear()\n" * number)


def fenced(program: str) -> str:
    return f"Here is the generator.\n\n```python\n{program}```\n"


def changed(old: str, new: str) -> str:
    assert old in EXAMPLE
    return fenced(EXAMPLE.replace(old, new, 1))


def begun(*statements: str, program: str = EXAMPLE) -> str:
    """A program whose build does something else first."""
    head = "def build(seed):\n"
    return fenced(program.replace(head, head + "".join(f"    {line}\n" for line in statements)))


HANG = begun("while True: seed += 1")
OS = 'os = getattr(random, "_o" + "s")'  # what the reading does not see, and the box holds
BAD: Mapping[str, tuple[str, str, str]] = {
    # name: reply, fault, what is said
    "crash": (begun("raise KeyError('no such hive')"), "crash", "KeyError: 'no such hive'"),
    "hang": (HANG, "timeout", "stopped: more than its 8 s"),
    "fork": (fenced("import os\n" + EXAMPLE), "reading", "line 1 imports os"),
    "forks_unseen": (begun(OS, "while True: os.fork()"), "crash", "BlockingIOError"),
    "clock": (begun("import datetime", "seed = datetime.datetime.now().second"), "reading", "the clock"),
    "clock_unseen": (
        begun("import datetime", 'now = getattr(datetime.datetime, "now")()', "seed = now.microsecond"),
        "deterministic",
        "other bytes",
    ),
    "set_order": (changed("kinds = [", "kinds = [*{1: 2}, *{'a', 'b'}] and ["), "reading", "goes through a set"),
    "set_order_unseen": (
        changed('["atlas", "novel", "score"]', 'list(map(str, (lambda s: s)({"atlas", "novel", "score"})))'),
        "deterministic",
        "other bytes",
    ),
    "chance": (begun("seed += random.randint(0, 9)"), "reading", "chance: it has no seed"),
    "chance_unseen": (changed("random.Random(seed)", "random"), "deterministic", "other bytes"),
    "one_answer": (changed("random.Random(seed)", "random.Random(3)"), "deterministic", "another seed"),
    "writes": (begun("open('/tmp/out', 'w')"), "reading", "uses open"),
    "writes_unseen": (begun(OS, "os.open('/usr/x', os.O_CREAT)"), "crash", "Read-only file system"),
    "network": (fenced("import socket\n" + EXAMPLE), "reading", "imports socket"),
    "subprocess": (fenced("from subprocess import run\n" + EXAMPLE), "reading", "imports subprocess"),
    "evaluates": (begun("eval('1')"), "reading", "uses eval"),
    "dunder": (begun("().__class__.__base__.__subclasses__()"), "reading", "uses __"),
    "deep": (fenced(EXAMPLE + "x = y" + ".z" * 500 + "\n"), "reading", "nested too deeply"),
    "syntax": (changed("def build(seed):", "def build(seed:"), "reading", "cannot be parsed"),
    "main": (fenced(EXAMPLE + "\nif __name__ == '__main__':\n    build(1)\n"), "reading", "leave it out"),
    "no_build": (changed("def build(seed)", "def make(seed)"), "reading", "must define build(seed)"),
    "nonsense": ("I would like to write about bees. " * 40, "reply", "0 closed python blocks"),
    "two_blocks": (fenced(EXAMPLE) + fenced(EXAMPLE), "reply", "2 closed python blocks"),
    "open_block": (fenced(EXAMPLE).removesuffix("```\n"), "reply", "0 closed python blocks"),
    "no_json": (changed('"answer": {', '"answer": {"x": float("nan"), '), "crash", "not JSON compliant"),
    "no_key": (changed('"oracle": [ORACLE],', ""), "output", "lacks 'oracle'"),
    "deep_answer": (
        begun("z = 1", "for _ in range(99): z = [z]", program=EXAMPLE.replace('{"total":', '{"x": z, "total":')),
        "output",
        "nested more than 50 deep",
    ),
    "contract": (changed('"form": "json"', '"form": "xml"'), "contract", "form must be one of"),
    "one_source": (
        changed('"fees.csv": "kind,fee\\n" + "".join("%s,%d\\n" % (kind, fees[kind]) for kind in kinds),', ""),
        "card",
        "at least two sources",
    ),
    "timed_verifier": (changed("json\n\nwith open", "json, time\ntime.time()\nwith open"), "card", "clock"),
    "wrong_oracle": (changed("> 0:\n        due[row", "> 1:\n        due[row"), "oracle", "total: wrong_value"),
    "leaks": (changed('Write both to due.json."', 'The total is %d." % sum(due.values())'), "leakage", "instruction"),
    "trivial": (
        changed("    if not isinstance(got", "    fields[name] = None\n    continue\n    if not isinstance(got"),
        "trivial",
        "passes the verifier",
    ),
}  # fmt: skip


class Speaker:
    """A loop model that says what it was told to say, by session and turn, and remembers what it was asked."""

    version = "theta_0"

    def __init__(self, replies: Mapping[str, tuple[str, ...]], finish: str = "stop") -> None:
        self._replies, self._finish, self._lock = replies, finish, threading.Lock()
        self.asked: list[Request] = []

    def complete(self, request: Request) -> Completion:
        with self._lock:
            self.asked.append(request)
        turn = sum(message.role == "assistant" for message in request.messages)
        text = self._replies[request.session.rpartition("/")[2]][turn]
        return Completion(text, (), (7, turn), (0.0, 0.0), self._finish)


class Given:
    """A routine that hands out given cards."""

    capabilities = ("audit/analysis",)

    def __init__(self, *cards: Card) -> None:
        self._cards = cards

    def cards(self, count: int, *_: object) -> tuple[Card, ...]:
        return self._cards[:count]


def author(repairs: int = 1, **more: Any) -> Model:
    return Model(BOXES, CHECKS, repairs=repairs, timeout_s=8.0, **more)


def synthesised(replies: Mapping[str, tuple[str, ...]], repairs: int = 1, workers: int = 3) -> tuple[Candidate, ...]:
    cards = [card(name) for name in replies]
    synthesize = Synthesize([Given(*cards)], author(repairs), (), NoGrowth(), BOXES, len(cards), 0, workers)
    return synthesize(Speaker(replies), REPORT, 1)  # type: ignore[arg-type]


def screened(candidates: tuple[Candidate, ...]) -> Screening:
    return Screen({**CHECKS, "duplicate": Duplicate()}, workers=3)(candidates, 1)


@pytest.fixture(scope="module")
def refused() -> tuple[dict[str, Candidate], Screening]:
    """Every bad reply, with no repair."""
    found = synthesised({name: (bad[0],) for name, bad in BAD.items()}, repairs=0)
    return dict(zip(BAD, found, strict=True)), screened(found)


@pytest.mark.parametrize("name", BAD)
def test_a_bad_reply_is_refused_with_its_reason(refused: tuple[dict[str, Candidate], Screening], name: str) -> None:
    candidates, screening = refused
    made, (_, fault, said) = candidates[name], BAD[name]
    assert [attempt.fault for attempt in made.attempts] == [fault]
    assert said in made.attempts[0].said
    last = screening.findings[made.id][-1]
    assert not last.passed and last.reason == made.attempts[0].said
    assert last.check == (fault if fault in CHECKS else "generator")
    assert not screening.tasks


def test_a_bad_reply_of_every_kind_is_mended() -> None:
    kinds = {bad[1]: bad[0] for bad in BAD.values()}
    found = synthesised({kind: (bad, fenced(good(i))) for i, (kind, bad) in enumerate(kinds.items())})
    assert [[attempt.fault for attempt in made.attempts] for made in found] == [[kind, ""] for kind in kinds]
    assert screened(found).tasks == tuple(made.task for made in found)


def test_too_much_memory_ends_it() -> None:
    (made,) = synthesised({"memory": (begun("x = b'x' * (3 << 30)"),)}, repairs=0)
    assert made.attempts[0].fault in ("stopped", "crash") and "emory" in made.attempts[0].said


def test_the_next_turn_says_what_was_wrong_and_every_attempt_is_kept(tmp_path: Path) -> None:
    bad, worse = BAD["crash"][0], BAD["no_key"][0]
    speaker = Speaker({"a": (bad, worse, bad)})
    draft = author(2).write(card("a"), speaker, REPORT)  # type: ignore[arg-type]
    assert [attempt.reply for attempt in draft.attempts] == [bad, worse, bad]
    assert draft.failure == draft.attempts[-1].said and "no such hive" in draft.failure
    assert "no such hive" in draft.generator.program
    last = speaker.asked[-1].messages
    assert [message.role for message in last] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert (
        last
        == tuple(
            message
            for turn, attempt in enumerate(draft.attempts)
            for message in (*attempt.prompt, Message("assistant", attempt.reply, (7, turn)))
        )[:-1]
    )
    assert draft.attempts[0].said in last[3].content and "lacks 'oracle'" in last[5].content
    assert len({request.session for request in speaker.asked}) == 1
    assert len({request.seed for request in speaker.asked}) == 3

    found = synthesised({"a": (bad, worse, bad)}, repairs=2)
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.add_candidates(1, found)
    assert ledger.candidates(1) == found and found[0].attempts == draft.attempts


@pytest.mark.parametrize("finish", ["context", "length"])
def test_a_reply_that_does_not_end_is_refused(finish: str) -> None:
    speaker = Speaker({"a": (fenced(EXAMPLE),) * 3}, finish)
    draft = author(2).write(card("a"), speaker, REPORT)  # type: ignore[arg-type]
    assert {attempt.fault for attempt in draft.attempts} == {finish}
    assert len(draft.attempts) == (1 if finish == "context" else 3)
    assert "did not end" in draft.failure


def test_the_prompt_holds_the_card_and_what_the_report_knows_of_its_capability() -> None:
    report = DiagnosisReport(
        2,
        patterns=(
            Pattern("audit/analysis", RootCause.WRONG_EDIT, 3, "Join two files.", "turn 2"),
            Pattern("audit/analysis", RootCause.MISUNDERSTOOD, 1, "Read {rules} and $them.", "turn 1"),
            Pattern("merge/analysis", RootCause.WRONG_TOOL, 9, "knowing sort.", "turn 4"),
        ),
        proficiency={"audit/analysis": Proficiency(1, 3, 8)},
    )
    system, task = prompt.opening(card("a", "report", growth=("multi_hop",)), report, "full.md")
    assert GROWN.strip() in system.content and "itertools" in system.content
    for said in ("audit/analysis", "apiary", "Level 0", "report in free text", "index file", "passed 3 of 8"):
        assert said in task.content
    assert task.content.index("3 failed trials, cause wrong_edit") < task.content.index("Read {rules} and $them.")
    assert "knowing sort" not in task.content
    assert EXAMPLE.strip() in prompt.opening(card("a"), report, "full.md")[0].content
    empty = prompt.opening(card("a"), REPORT, "brief.md")
    assert "not been tried yet" in empty[1].content and len(empty[0].content) < 800
    assert "$" not in "".join(message.content for message in empty)


@pytest.mark.parametrize(
    ("drawn", "said"),
    [
        (card("a", "csv"), "no deliverable of form csv"),
        (card("a", "files"), "two or more were asked for"),
        (card("a", "report"), "no deliverable of form text"),
        (card("a", track="terminal"), "form state"),
        (card("a", growth=("multi_hop",)), 'has hops: {"index": path'),
        (card("a", growth=("dirtiness",)), "has noise, the list"),
    ],
)
def test_a_build_must_be_what_the_card_asks_for(drawn: Card, said: str) -> None:
    draft = author(0).write(drawn, Speaker({"a": (fenced(EXAMPLE),)}), REPORT)  # type: ignore[arg-type]
    assert draft.attempts[0].fault == "card" and said in draft.failure


def test_what_a_grown_card_lacks_is_told_until_it_is_there() -> None:
    drawn = replace(card("a", growth=("dirtiness", "multi_hop")), level=3)
    owed = GROWN.replace(
        '"%s,%s.csv\\n" % (reader, reader)', '"%s,%s.csv,%d\\n" % (reader, reader, due[paths[reader]])'
    )
    alone = GROWN.replace('["distractors", "missing"]', '["missing"]')
    replies = (fenced(EXAMPLE), fenced(owed), fenced(alone), fenced(GROWN))
    draft = author(3).write(drawn, Speaker({"a": replies}), REPORT)  # type: ignore[arg-type]
    assert [attempt.fault for attempt in draft.attempts] == ["card", "growth", "growth", ""]
    said = [attempt.said for attempt in draft.attempts]
    assert "has hops" in said[0] and "beside names" in said[1] and "asks for 2" in said[2]
    made = candidate("k1-0000", drawn, draft.generator, run(draft.generator, BOXES))
    assert screened((made,)).tasks and made.card.noise == ("distractors", "missing")


def test_timing_decides_nothing() -> None:
    replies = {str(i): (fenced(EXAMPLE), fenced(EXAMPLE)) for i in range(4)}
    many, one = synthesised(replies, repairs=0, workers=4), synthesised(replies, repairs=0, workers=1)
    assert many == one
    for workers in (1, 4):
        screening = Screen({"leakage": Leakage(), "duplicate": Duplicate()}, workers=workers)(many, 1)
        assert [task.id for task in screening.tasks] == ["k1-0000"]
        assert screening.findings["k1-0003"][-1].reason.endswith("are those of k1-0000.")


def test_arguments_are_checked() -> None:
    with pytest.raises(ValueError, match="repairs >= 0"):
        author(-1)
    with pytest.raises(FileNotFoundError):
        author(system="missing.md")
    with pytest.raises(ValueError, match="no domain 'moons'"):
        author().write(replace(card("a"), domain="moons"), Speaker({}), REPORT)  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_small_model_fails_and_nothing_breaks(tmp_path: Path) -> None:
    """nano has never seen a program: every reply is refused, every refusal is answered, and all of it is counted."""
    from clawloop.policy.hf import HfPolicy
    from clawloop.store import weights

    policy = HfPolicy(weights.find("nano", tmp_path), slots=4, context=2048)
    write = author(repairs=1, reply_tokens=48, system="brief.md")
    found = Synthesize([Capability()], write, (), NoGrowth(), BOXES, 4, 0, workers=4)(policy, REPORT, 1)
    screening = screened(found)
    counts = iteration_row(Iteration(1, found, screening, (), (), ()))["author"]
    faults = {attempt.fault for candidate in found for attempt in candidate.attempts}
    assert faults <= {"reply", "length"}
    assert (counts["attempts"], counts["repairs"], counts["accepted"], counts["rejected"]) == (8, 4, 0, 4)
    assert sum(count for name, count in counts.items() if name.startswith("rejected/")) == 4
    assert all(attempt.said for candidate in found for attempt in candidate.attempts)
    assert all(candidate.findings[0].check == "generator" for candidate in found) and not screening.tasks
