"""Whole runs with the model as author: one whose agent can write generators, and one whose agent cannot."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clawloop.store.layout import Layout
from clawloop.store.ledger import Ledger

HERE = Path(__file__).parent
SMALL = (
    "author=model",
    "iterations=2",
    "candidates=3",
    "rollouts=4",
    "band.high=3",
    "probe.tasks=1",
    "budget.reply_tokens=1000",
)


WRITER = (
    "~policy.rules",
    "policy._target_=wordsmith.Wordsmith",
    "routine.capability.tracks=[analysis]",
    "routine.capability.forms=[json]",
)


def play(moment: str, folder: Path, *overrides: str) -> int:
    command = [sys.executable, str(HERE / "play.py"), moment, str(folder), *SMALL, *overrides]
    paths = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths, "ASKED": str(folder / "asked")}
    return subprocess.run(command, env=environment, timeout=300, check=False).returncode


def iterations(folder: Path, *overrides: str) -> list[dict[str, Any]]:
    assert play("never", folder, *overrides) == 0
    rows: list[dict[str, Any]] = json.loads(Layout(folder).summary.read_text())["iterations"]
    return rows


@pytest.mark.slow
def test_what_the_agent_writes_is_practised(tmp_path: Path) -> None:
    rows = iterations(tmp_path, *WRITER)
    for row in rows:
        counts = row["author"]
        assert (counts["attempts"], counts["repairs"], counts["fault/reply"]) == (6, 3, 3)
        assert counts["accepted"] + counts.get("rejected/duplicate", 0) == 3
        assert counts["accepted"] == counts["repaired"] >= 2
    assert sum(row["practice"] + row["held_out"] for row in rows) >= 2
    ledger = Ledger(Layout(tmp_path).ledger)
    assert [attempt.fault for c in ledger.candidates(2) for attempt in c.attempts] == ["reply", ""] * 3
    assert ledger.metrics("loop")[1]["author/repairs"] == 3.0


@pytest.mark.slow
def test_what_the_agent_writes_for_the_domain_route_is_tried(tmp_path: Path) -> None:
    rows = iterations(tmp_path, *WRITER[:2], "routine=[domain]", "difficulty=none")
    for row in rows:
        counts = row["author"]
        assert (counts["attempts"], counts["repairs"], counts["fault/reply"]) == (6, 3, 3)
        assert counts["accepted"] == counts["repaired"] == 3
    told = [c.task.instruction for k in (1, 2) for c in Ledger(Layout(tmp_path).ledger).candidates(k) if c.task]
    assert len(told) == 6 and all("It is asked that" in text for text in told)


@pytest.mark.slow
def test_an_agent_that_cannot_write_practises_nothing_and_the_run_ends_well(tmp_path: Path) -> None:
    rows = iterations(tmp_path)
    assert [row["author"]["rejected/reply"] for row in rows] == [3, 3]
    assert [row["author"]["attempts"] for row in rows] == [9, 9]
    assert [row["passed_agent_free"] + row["practice"] + row["held_out"] for row in rows] == [0, 0]


@pytest.mark.slow
def test_a_run_that_is_killed_while_the_agent_writes_asks_for_nothing_twice(tmp_path: Path) -> None:
    assert play("progress@k1/synthesis@2", tmp_path, *WRITER, "iterations=1", "candidates=8", "check=[leakage]") == -9
    kept = Ledger(Layout(tmp_path).ledger).candidates(1)
    assert 2 <= len(kept) < 8 and all(candidate.attempts for candidate in kept)
    (tmp_path / "asked").unlink()
    (row,) = iterations(tmp_path, *WRITER, "iterations=1", "candidates=8", "check=[leakage]")
    assert row["author"]["attempts"] == 16
    written = Ledger(Layout(tmp_path).ledger).candidates(1)
    asked = (tmp_path / "asked").read_text().split()
    assert sorted(set(asked)) == sorted(f"author/{c.card.lineage}" for c in written if c not in kept)
