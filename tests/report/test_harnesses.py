"""report/harnesses: what the steps on fresh rollouts showed of each harness, and how it is shown."""

import json
from pathlib import Path

from clawloop.report.harnesses import harnesses
from clawloop.report.tables import show
from clawloop.store.layout import Layout

STEPS = {
    1: {"loss": 1.0, "groups/shell": 2.0, "learnability/shell": 0.5, "p/shell": 0.5, "p/xml": 0.5, "visits/shell": 1.0},
    2: {"groups/xml": 2.0, "learnability/xml": 0.2, "transferability/xml": 0.1, "cosine/xml/shell": 0.1},
    3: {"groups/shell": 1.0, "learnability/shell": 0.3, "transferability/shell": -0.2, "cosine/shell/xml": -0.2}
    | {"p/shell": 0.6, "p/xml": 0.4, "visits/shell": 2.0, "visits/xml": 1.0},
}  # fmt: skip


def test_signals_are_means_and_the_state_is_the_last() -> None:
    found = harnesses(STEPS)
    assert list(found) == ["shell", "xml"]
    assert found["shell"] == {
        "groups": 3, "learnability": 0.4, "transferability": -0.2, "visits": 2.0, "p": 0.6, "cosines": {"xml": -0.2},
    }  # fmt: skip
    assert found["xml"]["p"] == 0.4
    assert harnesses({1: {"loss": 1.0}}) == {}


def test_a_mixture_shows_its_groups_and_nothing_that_it_does_not_know(tmp_path: Path) -> None:
    for steps, lines in (({1: {"groups/shell": 3.0, "groups/xml": 5.0}}, 1), (STEPS, 2), ({}, 0)):
        summary = {"probe": [], "difference": None, "iterations": [], "harnesses": harnesses(steps), "wall_s": 0.0}
        Layout(tmp_path).summary.write_text(json.dumps(summary))
        text = show(tmp_path)
        assert text.count("## ") == lines
        assert ("| xml   |     1 |      2 |" in text) == (lines == 2)
        assert ("| xml   |      5 |" in text) == (lines == 1)
    Layout(tmp_path).summary.write_text(json.dumps({k: v for k, v in summary.items() if k != "harnesses"}))
    assert "Harnesses" not in show(tmp_path)
