"""Whole runs on fresh rollouts: killed, they repeat none and end alike; what cannot be ends at once."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from clawloop.store.layout import Layout
from clawloop.store.ledger import Ledger
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
    "trainer=[grpo]",
    "trainer.grpo.lr=1e-2",
    "harness=[shell_brief,react_brief]",
    "source=fresh",
    "source.steps=4",
    "scheduler=bandit",
    "scheduler.warmup=3",
)
MOMENTS = {
    "first step": "add@k1/grpo/step1/shell@3",
    "after a step": "log@grpo@1",
    "between steps": "add@k1/grpo/step3/shell@2",
    "after the stage": "end_phase@grpo@1",
    "next iteration": "add@k2/grpo/step2/shell@1",
}


def play(
    moment: str, folder: Path, settings: Sequence[str] = SMALL, timeout_s: float = 300
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(HERE / "play.py"), moment, str(folder), *settings]
    paths = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False)


def trials(folder: Path) -> dict[str, tuple[object, ...]]:
    ledger = Ledger(Layout(folder).ledger)
    places = [f"k{k}/grpo/step{t}/{name}" for k in (1, 2) for t in range(1, 5) for name in ("shell", "react")]
    return {at: ledger.rollouts(at) for at in places}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    done = play("never", folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
def test_every_fresh_trial_is_in_the_ledger_and_a_step_is_of_one_harness(whole: Path) -> None:
    played = {at: found for at, found in trials(whole).items() if found}
    assert {at.rpartition("/")[0] for at in played} == {f"k{k}/grpo/step{t}" for k in (1, 2) for t in range(1, 5)}
    assert len(played) == 8
    for at, found in played.items():
        assert {rollout.trajectory.harness for rollout in found} == {at.rpartition("/")[2]}  # type: ignore[attr-defined]
    numbers = Ledger(Layout(whole).ledger).metrics("grpo")
    assert any("p/shell" in values for values in numbers.values())


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS.values(), ids=MOMENTS)
def test_a_killed_run_plays_no_trial_again_and_ends_alike(whole: Path, tmp_path: Path, moment: str) -> None:
    assert play(moment, tmp_path).returncode == -9
    before = trials(tmp_path)
    done = play("never", tmp_path)
    assert done.returncode == 0, done.stderr
    after, wanted = trials(tmp_path), trials(whole)
    for at, found in before.items():
        assert set(map(repr, found)) <= set(map(repr, after[at]))
    names = lambda found: {at: [(r.task_id, r.index, r.reward) for r in rs] for at, rs in found.items()}  # noqa: E731
    assert names(after) == names(wanted)
    assert digest(Layout(tmp_path).checkpoint("theta_2")) == digest(Layout(whole).checkpoint("theta_2"))


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("source=replay", "Bandit chooses the harness of new rollouts, and source=replay makes none;"),
        ("harness=[shell_brief]", "there is only shell; name two or more, such as 'harness=[shell,tools]'."),
        ("trainer.grpo.batch_size=6", "source=fresh: trainer.grpo.batch_size is 6 trajectories"),
    ],
    ids=["replay", "one harness", "batch"],
)
def test_what_cannot_be_ends_before_anything_begins(tmp_path: Path, override: str, said: str) -> None:
    done = play("never", tmp_path, [*(one for one in SMALL if not one.startswith("source.")), override])
    assert done.returncode == 2 and len(done.stderr.strip().splitlines()) == 1
    assert said in done.stderr
    assert Ledger(Layout(tmp_path).ledger).iterations() == ()


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_nano_samples_its_fresh_trials_itself_and_is_trained_on_them(tmp_path: Path) -> None:
    small = ("iterations=1", "candidates=12", "check=[oracle]", "probe.tasks=2", "probe.trials=1", "band.high=7")
    chosen = ("scale=laptop", "tracker=[jsonl]", "trainer=[grpo]", "source=fresh", "source.steps=2")
    done = play("never", tmp_path, (*small, *chosen), timeout_s=1700)
    assert done.returncode == 0, done.stderr
    ledger = Ledger(Layout(tmp_path).ledger)
    for step in (1, 2):
        found = ledger.rollouts(f"k1/grpo/step{step}/shell")
        versions = {rollout.trajectory.policy_version for rollout in found if rollout.trajectory}
        assert len(found) >= 8 and versions == {f"theta_1-grpo-{step - 1}"}
    numbers = ledger.metrics("grpo")
    assert numbers and numbers[1]["drift"] < 1e-3 and numbers[1]["ratio"] == pytest.approx(1, abs=1e-3)
    assert numbers[1]["groups/shell"] >= 1
