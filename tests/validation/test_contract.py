"""A decision that changes the answer must be declared."""

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest

from clawloop.policy.scripted import ScriptedPolicy
from clawloop.sandbox.bubblewrap import Bubblewrap
from clawloop.synthesis.author.library.library import Library
from clawloop.synthesis.generator import candidate, run
from clawloop.synthesis.growth.dirtiness import Dirtiness
from clawloop.synthesis.growth.multi_hop import MultiHop
from clawloop.synthesis.routine.capability import FORMS, Capability
from clawloop.types import Candidate, Card, DiagnosisReport, Finding
from clawloop.validation.check.contract import Declares

Make = Callable[..., Candidate]
DECLARES = '"decisions": [list(rule[:2]) for rule in rules]'
BOXES = Bubblewrap()


def test_what_is_declared_may_decide(make: Make) -> None:
    assert Declares()(make("task['alternatives'] = {'filter': [{'total': 1}]}")) == Finding("contract", True)
    assert Declares()(make()) == Finding("contract", True)


@pytest.mark.parametrize(
    ("alternatives", "tolerance", "passes"),
    [
        ("{'tie': [{'total': answer['total'] + 1}]}", 0, False),
        ("{'tie': [answer]}", 0, True),
        ("{'tie': [answer, {'total': 0}]}", 0, False),
        ("{'tie': []}", 0, True),
        ("{'filter': [{'total': 1}], 'tie': [{'total': 1}]}", 0, False),
        ("{'rounding': [{'total': answer['total'] + 0.004}]}", 0.005, True),
        ("{'rounding': [{'total': answer['total'] + 0.006}]}", 0.005, False),
        ("{'tie': [{'total': str(answer['total'])}]}", 0, False),
        ("{'tie': [{'sum': answer['total']}]}", 0, False),
        ("{'tie': [{'total': [answer['total']]}]}", 0, False),
    ],
)
def test_what_is_silent_may_not(make: Make, alternatives: str, tolerance: float, passes: bool) -> None:
    more = f"task['alternatives'] = {alternatives}; task['contract']['deliverables'][0]['tolerance'] = {tolerance}"
    finding = Declares()(make(more))
    assert finding.passed is passes
    name = "rounding" if "rounding" in alternatives else "tie"
    assert passes or f"silent about '{name}'" in finding.reason


def drawn(capability: str, level: int, form: str, seed: int, program: Callable[[str], str] = str) -> Candidate:
    card = Card("capability", capability, capability.split("/")[1], "hives", level, form, seed, f"{capability}/{seed}")
    card = Dirtiness().grow(MultiHop().grow(card))
    generator = Library().write(card, ScriptedPolicy(), DiagnosisReport.empty()).generator
    generator = replace(generator, program=program(generator.program))
    return candidate("k1-0000", card, generator, run(generator, BOXES))


@pytest.mark.parametrize(("level", "capability"), list(itertools.product(range(5), Capability().capabilities)))
def test_the_library_declares_what_it_decides(level: int, capability: str) -> None:
    made = drawn(capability, level, FORMS[level % 4], 40 + level)
    assert Declares()(made).passed
    assert made.task is not None
    assert set(made.alternatives) <= {decision.name for decision in made.task.contract.decisions}


@pytest.mark.parametrize(
    ("capability", "level", "seed", "name"),
    [
        ("calculation/analysis", 1, 2, "rounding"),
        ("merge/analysis", 0, 1, "order"),
        ("audit/analysis", 1, 1, "filter"),
        ("calculation/analysis", 2, 2, "missing"),
        ("audit/analysis", 4, 1, "distractors"),
        ("audit/analysis", 4, 1, "drift"),
        ("audit/analysis", 4, 1, "units"),
    ],
)
def test_a_library_program_whose_contract_is_silent_is_refused(
    capability: str, level: int, seed: int, name: str
) -> None:
    def silent(program: str) -> str:
        assert program.count(DECLARES) == 1
        return program.replace(DECLARES, DECLARES.replace("in rules", f"in rules if rule[0] != {name!r}"))

    assert Declares()(drawn(capability, level, "csv", seed)).passed
    finding = Declares()(drawn(capability, level, "csv", seed, silent))
    assert not finding.passed and f"silent about {name!r}" in finding.reason


@pytest.mark.parametrize(
    ("level", "noise"),
    [(2, ()), (3, ("distractors", "missing")), (4, ("distractors", "missing", "drift", "units"))],
)
def test_the_card_lists_the_noise_that_is_in_the_files(level: int, noise: tuple[str, ...]) -> None:
    made = drawn("audit/analysis", level, "json", 11)
    assert made.task is not None
    assert made.card.noise == made.task.card.noise == noise
    assert any("details/old" in path for path in made.task.workspace.files) is ("distractors" in noise)
    assert any(b"qty" in data for data in made.task.workspace.files.values()) is ("drift" in noise)


def test_noise_is_listed_on_the_other_track_too() -> None:
    assert drawn("audit/terminal", 4, "json", 11).card.noise == ("distractors", "missing", "drift", "units")
    assert drawn("audit/terminal", 2, "json", 11).card.noise == ()
