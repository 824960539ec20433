"""author model on the domain route: the model writes the instruction from the brief alone, and is held to it."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clawloop.rollout.grade import SandboxGrader
from clawloop.sandbox.bubblewrap import Bubblewrap
from clawloop.synthesis.author.library.grounded import brief, ground
from clawloop.synthesis.author.library.library import Library
from clawloop.synthesis.author.model import telling
from clawloop.synthesis.author.model.instruction import opening
from clawloop.synthesis.author.model.model import Model
from clawloop.synthesis.author.model.reading import ReadingError
from clawloop.synthesis.difficulty.none import NoGrowth
from clawloop.synthesis.routine.domain import DomainGrounded
from clawloop.synthesis.skills.instruct import Brief, Goal, Parameter, Reference
from clawloop.synthesis.synthesize import Synthesize
from clawloop.types import Candidate, Card, Completion, DiagnosisReport, Request
from clawloop.validation.check.deterministic import Deterministic
from clawloop.validation.check.duplicate import Duplicate
from clawloop.validation.check.leakage import Leakage
from clawloop.validation.check.oracle import Oracle
from clawloop.validation.check.trivial import Trivial
from clawloop.validation.screen import Screen

BOXES = Bubblewrap()
GRADER = SandboxGrader(BOXES)
CHECKS: dict[str, Any] = {
    "deterministic": Deterministic(BOXES),
    "oracle": Oracle(BOXES, GRADER),
    "leakage": Leakage(),
    "trivial": Trivial(GRADER),
}
REPORT = DiagnosisReport.empty()
HERE = {name: Parameter(name) for name in ("patient", "day", "day_2", "specialty", "amount")}
DOCTOR = Reference("clinician", "the clinician with the lowest fee in {specialty}", {"specialty": HERE["specialty"]})
CANCEL = Goal("{clinician} has no visit on {day}", {"clinician": DOCTOR, "day": HERE["day"]})
CHARGE = Goal("{amount} is added to what {patient} owes", {"amount": HERE["amount"], "patient": HERE["patient"]})
BOOK = Goal("{clinician} has a visit on {day}", {"clinician": DOCTOR, "day": HERE["day_2"]})
BRIEF = Brief("A clinic's front desk.", (CHARGE, CANCEL))
NAMES = {"charge_patient", "prescribe", "visits"}
GOOD = (
    "1. On {day}, no visit with the clinician who has the lowest fee in {specialty}.",
    "2. {amount} is to be added to what {patient} owes.",
)


def card(level: int = 1, seed: int = 5, capability: str = "clinic/patients") -> Card:
    return Card("domain", capability, "terminal", "clinic", level, "state", seed, f"{capability}/{seed}")


def lines(request: Request) -> list[str]:
    """The goals of a prompt, as numbered lines."""
    return re.findall(r"^\d+\. .*$", request.messages[1].content, re.MULTILINE)


class Speaker:
    """A loop model that says what a function makes of the goals that it is shown, turn by turn."""

    version = "theta_0"

    def __init__(self, *turns: Any, finish: str = "stop") -> None:
        self._turns, self._finish = turns, finish
        self.asked: list[Request] = []

    def complete(self, request: Request) -> Completion:
        self.asked.append(request)
        turn = sum(message.role == "assistant" for message in request.messages)
        said = self._turns[min(turn, len(self._turns) - 1)]
        return Completion(said(lines(request)), (), (7, turn), (0.0, 0.0), self._finish)


def polite(goals: list[str]) -> str:
    return "<think>easy</think>" + "\n".join(
        re.sub(r"^(\d+\.) ", r"\1 Kindly arrange that ", goal) for goal in goals[::-1]
    )


BAD: dict[str, tuple[Any, str, str]] = {
    "no_gap": (lambda goals: "\n".join(re.sub(r"[{}]", "", goal) for goal in goals), "gaps", "lacks the gap"),
    "foreign_gap": (lambda goals: polite(goals) + " {weather}", "gaps", "the gap {weather}"),
    "tool": (lambda goals: polite(goals) + " Use charge_patient.", "leak", "'charge_patient'"),
    "option": (lambda goals: polite(goals) + " With --amount.", "leak", "'--amount'"),
    "file": (lambda goals: polite(goals) + " See run.py.", "leak", "'run.py'"),
    "number": (lambda goals: polite(goals) + " It costs 99.", "leak", "'99'"),
    "nonsense": (lambda goals: "I think of bees.", "reply", "one for each goal"),
    "empty": (lambda goals: "", "reply", "one for each goal"),
    "long": (lambda goals: polite(goals) + " please" * 200, "reply", "at most 600"),
    "other_words": (
        lambda goals: "\n".join(re.sub(r"[A-Za-z]+(?![^{]*})", "so", goal) for goal in goals),
        "telling",
        "must keep more of the words",
    ),
}  # fmt: skip


def written(speaker: Speaker, level: int = 1, repairs: int = 1, folders: tuple[str, ...] = ()) -> tuple[Candidate, Any]:
    class Given:
        capabilities = ("clinic/patients",)

        def cards(self, count: int, *_: object) -> tuple[Card, ...]:
            return (card(level),)

    author = Model(BOXES, CHECKS, folders, repairs)
    (made,) = Synthesize([Given()], author, (), NoGrowth(level), BOXES, 1, 0)(speaker, REPORT, 1)  # type: ignore[arg-type, list-item]
    return made, Screen({**CHECKS, "duplicate": Duplicate()})((made,), 1)


@pytest.mark.parametrize("level", [0, 2, 4])
def test_a_good_reply_becomes_a_task_that_passes_the_screen(level: int) -> None:
    speaker = Speaker(polite)
    made, screening = written(speaker, level)
    assert [attempt.fault for attempt in made.attempts] == [""], made.attempts[-1].said
    assert screening.tasks == (made.task,) and made.task is not None
    assert made.task.instruction.count("Kindly arrange that") == len(lines(speaker.asked[0]))
    assert "{" not in made.task.instruction and "SKILL.md" in made.task.instruction


@pytest.mark.parametrize("name", BAD)
def test_a_bad_reply_is_told_why_and_mended(name: str) -> None:
    bad, fault, said = BAD[name]
    speaker = Speaker(bad, polite)
    made, screening = written(speaker)
    first, second = made.attempts
    assert (first.fault, second.fault) == (fault, "") and said in first.said
    assert first.said in speaker.asked[1].messages[-1].content
    assert screening.tasks == (made.task,)


@pytest.mark.parametrize("name", ["no_gap", "nonsense"])
def test_a_reply_that_stays_bad_is_a_rejection_with_its_reason(name: str) -> None:
    bad, fault, said = BAD[name]
    made, screening = written(Speaker(bad))
    assert [attempt.fault for attempt in made.attempts] == [fault, fault]
    assert made.task is None and said in screening.findings[made.id][-1].reason and not screening.tasks


@pytest.mark.parametrize(("finish", "attempts"), [("length", 2), ("context", 1)])
def test_a_reply_that_never_ends_is_a_rejection(finish: str, attempts: int) -> None:
    made, _ = written(Speaker(polite, finish=finish))
    assert [attempt.fault for attempt in made.attempts] == [finish] * attempts
    assert made.task is None and "did not end" in made.findings[0].reason


def test_a_reply_that_a_check_refuses_goes_to_the_screen() -> None:
    class Strict:
        def __call__(self, candidate: Candidate) -> Any:
            found = Leakage()(candidate)
            return replace(found, passed=False, reason="it is too polite.")

    draft = Model(BOXES, {"polite": Strict()}, repairs=1).write(card(), Speaker(polite), REPORT)  # type: ignore[arg-type]
    assert [attempt.fault for attempt in draft.attempts] == ["polite", "polite"] and not draft.failure


def test_the_prompt_depends_on_the_brief_alone() -> None:
    """Neither another domain's world or trajectory nor the order of the goals shows."""
    same = opening(replace(BRIEF, goals=BRIEF.goals[::-1]), "full.md")
    assert opening(BRIEF, "full.md") == same
    found = ground(card(4), ())
    one, other = found.plans[0], found.plans[0]
    other = replace(other, steps=tuple(replace(step, remedies=()) for step in other.steps))
    rng = found.rng.getstate()
    first = brief(one, found.domain, found.rng)
    found.rng.setstate(rng)
    assert opening(first, "full.md") == opening(brief(other, found.domain, found.rng), "full.md")
    text = "".join(message.content for name in ("full.md", "brief.md") for message in opening(first, name))
    assert not [name for name in found.domain.tools if "_" in name and name in text]


def test_the_model_is_asked_what_its_brief_says_whatever_the_world() -> None:
    speaker = Speaker(polite)
    made, _ = written(speaker, 3)
    asked = "".join(message.content for message in speaker.asked[0].messages)
    records = made.task.workspace.files["state.sql"].decode()  # type: ignore[union-attr]
    values = set(re.findall(r"'([^']{4,})'", records.partition("INSERT")[2]))
    assert values and not [value for value in values if value in asked.replace("cardiology", "")]


@pytest.mark.parametrize(
    ("reply", "fault", "said"),
    [
        ("2. {amount} is added to what {patient} owes.", "reply", "2 lines"),
        ("\n".join((*GOOD, GOOD[0])), "reply", "2 lines"),
        ("Here:\n" + "\n".join(GOOD), "reply", "2 lines"),
        ("\n".join(GOOD).replace("{day}", "{day!r}"), "gaps", "Braces"),
        ("\n".join(GOOD).replace("{day}", "{day"), "gaps", "braces"),
        ("\n".join(GOOD).replace("{day}", "{{day}}"), "gaps", "Braces"),
        ("\n".join(GOOD).replace("{day}", "{day.real}"), "gaps", "{day.real}"),
        ("\n".join(GOOD).replace("{amount} is", "On {day} {amount} is"), "gaps", "does not have"),
        ("\n".join(GOOD).replace("no visit", "a visit"), "telling", "does not say no"),
        ("\n".join(GOOD).replace("is to be", "is not to be"), "telling", "says no where"),
        ("\n".join(GOOD).replace("is to be", "prescribe, to be"), "leak", "'prescribe'"),
        ("\n".join(GOOD).replace("is to be", "SELECT, to be"), "leak", "'SELECT'"),
        ("\n".join(GOOD).replace("added", "added to `x`"), "leak", "'`'"),
        ("\n".join(GOOD).replace("lowest fee", "lowest_fee"), "leak", "'lowest_fee'"),
        ("\n".join(GOOD).replace("who has the lowest fee", "there"), "telling", "must keep more"),
        ("\n".join(GOOD).replace("added", "added\x1b[2J"), "reply", "plain text"),
    ],
)  # fmt: skip
def test_a_line_is_held_to_its_goal(reply: str, fault: str, said: str) -> None:
    with pytest.raises(ReadingError, match=re.escape(said)) as error:
        telling.sentences(reply, BRIEF, NAMES)
    assert error.value.fault == fault


def test_words_of_ones_own_are_welcome() -> None:
    assert telling.sentences("\n".join(GOOD), BRIEF, NAMES) == tuple(line[3:] for line in GOOD)
    turned = "1) No visit, please, on {day} with the clinician of {specialty} who has the lowest fee!\n" + GOOD[1][:-1]
    assert telling.sentences(turned, BRIEF, NAMES)[1].endswith("owes.")


def test_what_goals_share_may_be_told_once() -> None:
    both = Brief("A clinic.", (CANCEL, BOOK))
    text = "2. No visit on {day} with the clinician of the lowest fee in {specialty}.\n1. A visit with them on {day_2}."
    assert len(telling.sentences(text, both, NAMES)) == 2
    with pytest.raises(ReadingError, match=r"\{specialty\} stands in no line"):
        telling.sentences(text.replace("{specialty}", "town"), both, NAMES)


def test_a_card_that_nothing_carries_is_a_rejection() -> None:
    class Lost:
        capabilities = ("clinic/nothing",)

        def cards(self, count: int, *_: object) -> tuple[Card, ...]:
            return (card(capability="clinic/nothing"),)

    author = Model(BOXES, CHECKS)
    (made,) = Synthesize([Lost()], author, (), NoGrowth(0), BOXES, 1, 0)(Speaker(polite), REPORT, 1)  # type: ignore[arg-type, list-item]
    assert made.task is None and "no skill 'nothing'" in made.findings[0].reason and not made.attempts


def test_only_the_words_differ_from_what_the_library_writes() -> None:
    made, _ = written(Speaker(polite), 0)
    library = Library().write(card(0), Speaker(polite), REPORT).generator  # type: ignore[arg-type]
    assert made.generator.seed == library.seed
    assert made.generator.program.partition("VERIFY")[2] == library.program.partition("VERIFY")[2]


@pytest.mark.slow
def test_a_small_model_is_asked_for_instructions_and_nothing_breaks(tmp_path: Path) -> None:
    """nano has never written a sentence: every reply is refused with its reason, answered once, and counted."""
    from clawloop.policy.hf import HfPolicy
    from clawloop.report.summary import Iteration, iteration_row
    from clawloop.store import weights

    policy = HfPolicy(weights.find("nano", tmp_path), slots=4, context=2048)
    author = Model(BOXES, CHECKS, repairs=1, reply_tokens=48, system="brief.md")
    found = Synthesize([DomainGrounded()], author, (), NoGrowth(1), BOXES, 4, 0, workers=4)(policy, REPORT, 1)
    screening = Screen(CHECKS)(found, 1)
    counts = iteration_row(Iteration(1, found, screening, (), (), ()))["author"]
    assert (counts["attempts"], counts["repairs"], counts["accepted"], counts["rejected"]) == (8, 4, 0, 4)
    assert {attempt.fault for made in found for attempt in made.attempts} <= {
        "reply",
        "length",
        "gaps",
        "telling",
        "leak",
    }
    assert all(attempt.said for made in found for attempt in made.attempts) and not screening.tasks
