"""The capability route draws cards: deterministic, even at first, then after what failed."""

from collections import Counter

import pytest

from clawloop.synthesis.routine.capability import Capability
from clawloop.types import DiagnosisReport, Pattern, Proficiency, RootCause

EMPTY = DiagnosisReport.empty()


def test_an_empty_report_gives_even_shares() -> None:
    routine = Capability()
    assert len(routine.capabilities) == 8 and "reconciliation/analysis" in routine.capabilities
    cards = routine.cards(64, EMPTY, 5)
    assert set(Counter(card.capability for card in cards).values()) == {8}
    assert Counter(card.form for card in cards) == dict.fromkeys(("json", "csv", "files", "report"), 16)
    for name in routine.capabilities:
        assert len({card.form for card in cards if card.capability == name}) == 4
    assert len({card.seed for card in cards}) == len({card.lineage for card in cards}) == 64
    assert len({card.domain for card in cards}) >= 24
    first = cards[0]
    assert first.lineage == f"{first.capability}/{first.domain}/{first.seed}" and first.growth == ()


def test_the_seed_decides() -> None:
    assert Capability().cards(20, EMPTY, 5) == Capability().cards(20, EMPTY, 5)
    assert Capability().cards(20, EMPTY, 5) != Capability().cards(20, EMPTY, 6)


def test_weak_capabilities_get_more_and_every_one_gets_some() -> None:
    names = Capability().capabilities
    known = {name: Proficiency(0, 8, 8) for name in names} | {names[2]: Proficiency(0, 0, 8)}
    report = DiagnosisReport(1, (), (Pattern(names[2], RootCause.WRONG_EDIT, 4, "x", "y"),), known)
    shares = Counter(card.capability for card in Capability().cards(80, report, 3))
    others = [shares[name] for name in names if name != names[2]]
    assert min(others) >= 1 and shares[names[2]] >= 2 * max(others)
    milder = DiagnosisReport(1, (), (), known)
    assert shares[names[2]] > Counter(card.capability for card in Capability().cards(80, milder, 3))[names[2]]


@pytest.mark.parametrize("count", [0, 1, 5, 9])
def test_the_count_is_exact(count: int) -> None:
    assert len(Capability().cards(count, EMPTY, 2)) == count


def test_tracks_and_forms_can_be_narrowed() -> None:
    cards = Capability(tracks=["terminal"], forms=["csv"]).cards(8, EMPTY, 2)
    assert {card.track for card in cards} == {"terminal"} and {card.form for card in cards} == {"csv"}


@pytest.mark.parametrize("wrong", [{"tracks": ["x"]}, {"forms": []}, {"domains": ["nowhere"]}, {"domains": []}])
def test_what_is_unknown_is_named(wrong: dict[str, list[str]]) -> None:
    with pytest.raises(ValueError, match=r"domain|must be some of"):
        Capability(**wrong)  # type: ignore[arg-type]
