"""author library: every capability, level and form gives a sound task, in the sandbox and through the whole screen."""

import itertools

import pytest

from clawloop.policy.scripted import ScriptedPolicy
from clawloop.rollout.grade import SandboxGrader
from clawloop.sandbox.bubblewrap import Bubblewrap
from clawloop.synthesis.author.library.library import Library
from clawloop.synthesis.generator import candidate, run
from clawloop.synthesis.growth.dirtiness import Dirtiness
from clawloop.synthesis.growth.multi_hop import MultiHop
from clawloop.synthesis.lexicon import held_domains, training_domains, vocabulary
from clawloop.synthesis.routine.capability import Capability
from clawloop.types import Candidate, Card, DiagnosisReport, Pattern, Proficiency, RootCause
from clawloop.validation.check.deterministic import Deterministic
from clawloop.validation.check.leakage import Leakage
from clawloop.validation.check.oracle import Oracle
from clawloop.validation.check.trivial import Trivial

BOXES = Bubblewrap()
GRADER = SandboxGrader(BOXES)
CAPABILITIES = Capability().capabilities
FORMS = ("json", "csv", "files", "report")


def card(capability: str, level: int, form: str, domain: str, seed: int) -> Card:
    track = capability.split("/")[1]
    drawn = Card("capability", capability, track, domain, level, form, seed, f"{capability}/{domain}/{seed}")
    return Dirtiness().grow(MultiHop().grow(drawn))


def made(drawn: Card) -> Candidate:
    generator = Library().write(drawn, ScriptedPolicy(), DiagnosisReport.empty()).generator
    return candidate("k1-0000", drawn, generator, run(generator, BOXES))


CELLS = list(itertools.product(CAPABILITIES, range(5)))


@pytest.mark.parametrize(("capability", "level"), CELLS)
def test_a_task_of_each_capability_and_level_passes_every_check(capability: str, level: int) -> None:
    index = CELLS.index((capability, level))
    domain = (*training_domains(), *held_domains())[(index * 7) % 40]
    task = made(card(capability, level, FORMS[index % 4], domain, index))
    for check in (Leakage(), Oracle(BOXES, GRADER), Trivial(GRADER)):
        finding = check(task)
        assert finding.passed, finding
    assert task.task is not None
    if level >= 2 and capability.endswith("analysis"):
        assert len(task.task.workspace.files) >= 2
    if level <= 1:
        assert len(task.oracle) == 1
        assert "\n" not in task.oracle[0]
        assert len(task.task.instruction.split()) < 60


@pytest.mark.parametrize("level", [0, 2, 4])
def test_generators_do_not_depend_on_the_machine(level: int) -> None:
    finding = Deterministic(BOXES)(made(card("merge/analysis", level, "csv", "hives", 3)))
    assert finding.passed, finding


def test_domains_are_many_and_those_of_the_probe_are_apart() -> None:
    assert len(training_domains()) >= 24
    assert len(held_domains()) >= 8
    assert not set(training_domains()) & set(held_domains())

    def words(name: str) -> set[str]:
        return {name, vocabulary(name)["entity"]}

    assert not set().union(*map(words, training_domains())) & set().union(*map(words, held_domains()))
    with pytest.raises(ValueError, match="no domain 'nowhere'"):
        vocabulary("nowhere")


def test_weak_capabilities_get_more_tasks_and_all_get_some() -> None:
    routine = Capability()
    even = routine.cards(64, DiagnosisReport.empty(), 5)
    counts = [sum(c.capability == name for c in even) for name in CAPABILITIES]
    assert counts == [8] * 8
    known = {name: Proficiency(0, 8, 8) for name in CAPABILITIES} | {"audit/terminal": Proficiency(0, 0, 8)}
    report = DiagnosisReport(1, (), (Pattern("audit/terminal", RootCause.MISUNDERSTOOD, 4, "", ""),), known)
    steered = routine.cards(64, report, 5)
    weak = sum(c.capability == "audit/terminal" for c in steered)
    assert weak > 16
    assert min(sum(c.capability == name for c in steered) for name in CAPABILITIES) >= 1
    assert routine.cards(64, report, 5) == steered
    assert routine.cards(64, report, 6) != steered
    assert len({c.lineage for c in steered}) == 64
