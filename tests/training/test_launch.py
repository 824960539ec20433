"""Stages in processes of their own: one and two devices, kills on any side, and what is said when it breaks."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from clawloop.store.ledger import encode
from clawloop.training.launch.torchrun import Torchrun
from clawloop.types import TaskPool

SCRIPT = Path(__file__).with_name("stage.py")
COMMON = {"warmup": 0.0, "weight_decay": 0.1, "micro_tokens": 24, "lr": 1e-2}
SFT = {"_target_": "clawloop.training.sft.Sft", "epochs": 2, "batch_size": 5, **COMMON}
GRPO = {
    "_target_": "clawloop.training.grpo.Grpo", "epochs": 1, "batch_size": 9, "beta": 0.04, "clip": 0.2, "epsilon": 1e-4,
    **COMMON,
}  # fmt: skip
FULL = {"_target_": "clawloop.training.adapter.full.Full"}
LORA = {"_target_": "clawloop.training.adapter.lora.Lora", "rank": 4, "alpha": 8.0}
INLINE = {"_target_": "clawloop.training.launch.inline.Inline"}

pytestmark = pytest.mark.slow


def torchrun(devices: int, **changes: Any) -> dict[str, Any]:
    target = "clawloop.training.launch.torchrun.Torchrun"
    return {"_target_": target, "devices": devices, "options": [], "prefix": [], **changes}


@pytest.fixture
def prepare(small_model: Path, practice: TaskPool, tmp_path: Path) -> Callable[..., Path]:
    """A folder for stage.py."""
    if "qwen3" not in (small_model / "config.json").read_text():
        pytest.skip("one network is enough")

    def make(name: str, stage: Any, launch: Any = INLINE, adapter: Any = FULL, kill: int = 0, **setup: Any) -> Path:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        setup = {"gradient_checkpointing": False, "save_every": 0} | setup
        run = {"weights": str(small_model), "stage": stage, "adapter": adapter, "launch": launch, "setup": setup}
        (folder / "run.json").write_text(json.dumps(run | {"kill": kill}))
        (folder / "pool.json").write_bytes(encode(practice))
        return folder

    return make


def play(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), str(folder)]
    return subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)


def came_out(folder: Path) -> tuple[dict[str, torch.Tensor], list[Any]]:
    return load_file(folder / "trained" / "model.safetensors"), json.loads((folder / "numbers.json").read_text())


def assert_same(one: Path, other: Path, tolerance: float) -> None:
    """The weights and every number of every step are the same."""
    (mine, (version, steps)), (theirs, (its, others)) = came_out(one), came_out(other)
    assert version == its
    assert mine.keys() == theirs.keys()
    assert max(float((mine[name] - theirs[name]).abs().max()) for name in mine) <= tolerance
    assert [step for step, _ in steps] == [step for step, _ in others]
    for (_, values), (_, expected) in zip(steps, others, strict=True):
        assert values == pytest.approx(expected, abs=max(tolerance, 1e-12), rel=1e-4)


def processes(folder: Path) -> list[int]:
    """Those whose command line names a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(folder).encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:  # it ended meanwhile
            continue
    return found


def wait_for(seen: Callable[[], Any]) -> Any:
    for _ in range(1200):
        if found := seen():
            return found
        time.sleep(0.1)
    raise AssertionError("it did not happen within two minutes")


@pytest.mark.parametrize(
    ("stage", "adapter"), [(SFT, FULL), (GRPO, FULL), (GRPO, LORA)], ids=["sft", "grpo", "grpo-lora"]
)
def test_processes_of_their_own_and_two_devices_train_the_same(
    prepare: Callable[..., Path], stage: Any, adapter: Any
) -> None:
    inline = prepare("inline", stage, INLINE, adapter)
    one = prepare("one", stage, torchrun(1), adapter)
    two = prepare("two", stage, torchrun(2), adapter, gradient_checkpointing=True)
    for folder in (inline, one, two):
        done = play(folder)
        assert done.returncode == 0, done.stderr
    assert_same(one, inline, 0.0)
    assert_same(two, inline, 1e-5)
    assert (two / "trained" / "adapter").is_dir() == (adapter is LORA)


def test_two_machines_are_two_agents_that_meet(prepare: Callable[..., Path], tmp_path: Path) -> None:
    """The prefix stands for srun: it starts the same command twice."""
    twice = tmp_path / "twice.sh"
    twice.write_text('#!/bin/sh\n"$@" & "$@"; code=$?; wait; exit $code\n')
    twice.chmod(0o755)
    options = ["--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:29411", "--rdzv-id=clawloop"]
    inline = prepare("inline", SFT)
    two = prepare("two", SFT, torchrun(1, options=options, prefix=[str(twice)]))
    for folder in (inline, two):
        done = play(folder)
        assert done.returncode == 0, done.stderr
    assert_same(two, inline, 1e-5)


@pytest.mark.parametrize("launch", [INLINE, torchrun(2)], ids=["inline", "torchrun"])
def test_a_stage_killed_between_steps_goes_on_to_the_same_weights(prepare: Callable[..., Path], launch: Any) -> None:
    whole = prepare("whole", SFT, launch)
    assert play(whole).returncode == 0
    killed = prepare("killed", SFT, launch, kill=4, save_every=1)
    assert play(killed).returncode == -signal.SIGKILL
    wait_for(lambda: not processes(killed))
    kept = [path.name for path in (killed / "training" / "theta_1-sft").glob("step.*")]
    assert len(kept) == 1
    prepare("killed", SFT, launch, save_every=1)
    done = play(killed)
    assert done.returncode == 0, done.stderr
    (mine, (_, steps)), (theirs, (_, others)) = came_out(killed), came_out(whole)
    assert all(torch.equal(mine[name], theirs[name]) for name in theirs)
    assert 0 < len(steps) < len(others)
    assert steps == others[-len(steps) :]


def test_a_killed_child_is_one_sentence_and_the_parent_leaves_nothing(prepare: Callable[..., Path]) -> None:
    folder = prepare("run", {**SFT, "epochs": 400}, torchrun(2))
    log = folder / "training" / "theta_1-sft" / "rank-1.log"
    with subprocess.Popen([sys.executable, str(SCRIPT), str(folder)], stderr=subprocess.PIPE, text=True) as parent:
        wait_for(log.exists)
        for worker in [pid for pid in processes(folder / "training") if "rank" in _role(pid)]:
            os.kill(worker, signal.SIGKILL)
        _, said = parent.communicate(timeout=200)
    assert parent.returncode == 1
    (last,) = [line for line in said.splitlines() if "InfrastructureError" in line]
    assert "trainer sft: its processes ended with exit code" in last
    assert f"The logs are in {folder}" in last
    assert not processes(folder)

    with subprocess.Popen([sys.executable, str(SCRIPT), str(folder)]) as parent:
        log.unlink()
        wait_for(log.exists)
        parent.kill()
    wait_for(lambda: not processes(folder))


def _role(pid: int) -> str:
    """`rank` for a worker, whose surroundings say which one it is."""
    surroundings = Path(f"/proc/{pid}/environ").read_bytes()
    return "rank" if b"\0LOCAL_RANK=" in surroundings else "agent"


def test_a_loss_that_is_not_finite_comes_back_in_its_own_words(prepare: Callable[..., Path]) -> None:
    blown = prepare("blown", {**SFT, "lr": 1e30, "max_grad_norm": 1e30}, torchrun(2))
    done = play(blown)
    assert "FloatingPointError: step 2: the loss or its gradient is not finite" in done.stderr.splitlines()[-1]
    (kept,) = (blown / "training" / "theta_1-sft").glob("not-finite-*.json")
    assert str(kept) in done.stderr
    assert len(json.loads(kept.read_text())["sequences"]) == 5


def test_new_rollouts_are_refused_before_anything_starts(tmp_path: Path) -> None:
    class Fresh:
        """A source that asks the policy for new rollouts."""

    with pytest.raises(ValueError, match=r"launch=torchrun: .* source Fresh needs new rollouts .* launch=inline"):
        Torchrun(1, [], [], tmp_path, Fresh())  # type: ignore[arg-type]
