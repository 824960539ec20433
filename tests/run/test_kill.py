"""A run killed with -9 in any phase and started again ends with the same pools and repeats nothing finished."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from clawloop.store.layout import Layout
from clawloop.store.ledger import Ledger, decode
from clawloop.store.weights import digest

HERE = Path(__file__).parent
SMALL = (
    "iterations=2",
    "candidates=12",
    "rollouts=4",
    "band.high=3",
    "check=[leakage,oracle]",
    "probe.tasks=2",
    "policy._target_=student.Student",
    "trainer.sft.lr=1e-2",
)
MOMENTS = {
    "synthesize": "progress@k1/synthesis@5",
    "screen": "progress@k1/screening@5",
    "admission": "add@k1/admission@20",
    "admit": "end_phase@admit@1",
    "split": "end_phase@split@1",
    "sft": "log@sft@1",
    "after sft": "end_phase@sft@1",
    "grpo": "log@grpo@1",
    "after grpo": "end_phase@grpo@1",
    "held_out": "add@k1/held_out@1",
    "diagnose": "end_phase@diagnose@1",
    "probe": "add@probe/1@3",
    "second iteration": "add@k2/admission@20",
}


def play(moment: str, folder: Path) -> int:
    command = [sys.executable, str(HERE / "play.py"), moment, str(folder), *SMALL]
    paths = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, timeout=300, check=False).returncode


def pools(folder: Path) -> list[list[str]]:
    ledger = Ledger(Layout(folder).ledger)
    return [decode(ledger.ended("admit", k) or b"[]", list[str]) for k in (1, 2)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    assert play("never", folder) == 0
    assert len(pools(folder)[0]) >= 3
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS.values(), ids=MOMENTS)
def test_a_killed_run_resumes_to_the_same_end(whole: Path, tmp_path: Path, moment: str) -> None:
    assert play(moment, tmp_path) == -9
    ledger = Ledger(Layout(tmp_path).ledger)
    places = ("probe/0", "k1/admission", "k1/held_out", "probe/1", "k2/admission")
    before = {at: ledger.rollouts(at) for at in places}
    ended = [
        (name, k)
        for name in ("synthesize", "screen", "admission", "sft", "grpo")
        for k in (1, 2)
        if ledger.ended(name, k) is not None
    ]
    assert play("never", tmp_path) == 0
    assert pools(tmp_path) == pools(whole)
    after = {at: {(r.task_id, r.index): r for r in ledger.rollouts(at)} for at in places}
    for at, rollouts in before.items():
        assert all(after[at][r.task_id, r.index] == r for r in rollouts)
    phases = [detail for name, detail in ledger.events() if name == "phase"]
    for name, k in ended:
        assert sum(d["name"] == name and d["k"] == k and not d["repeated"] for d in phases) == 1
    assert digest(Layout(tmp_path).checkpoint("theta_2")) == digest(Layout(whole).checkpoint("theta_2"))


@pytest.mark.slow
def test_two_runs_with_one_seed_give_the_same_bytes(whole: Path, tmp_path: Path) -> None:
    assert play("never", tmp_path) == 0
    mine, theirs = Ledger(Layout(tmp_path).ledger), Ledger(Layout(whole).ledger)
    for k in (1, 2):
        assert mine.candidates(k) == theirs.candidates(k)
        assert mine.ended("admit", k) == theirs.ended("admit", k)
        assert mine.ended("split", k) == theirs.ended("split", k)
    assert Layout(tmp_path).report.read_bytes() == Layout(whole).report.read_bytes()
    summaries = [json.loads(Layout(folder).summary.read_text()) for folder in (tmp_path, whole)]
    for summary in summaries:
        del summary["wall_s"]
        for row in summary["iterations"]:
            del row["seconds"]
    assert summaries[0] == summaries[1]


@pytest.mark.slow
def test_another_config_does_not_resume_and_says_which_key(whole: Path) -> None:
    command = [sys.executable, str(HERE / "play.py"), "never", str(whole), *SMALL, "band.high=2"]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(HERE)}, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 2
    assert "band.high was 3 when this run began and is 2 now" in done.stderr
    assert "Traceback" not in done.stderr
