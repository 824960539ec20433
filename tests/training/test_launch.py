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

from clawloop.build.part import part, parts
from clawloop.policy.hf import HfPolicy
from clawloop.protocols import InfrastructureError
from clawloop.store.ledger import encode
from clawloop.training.launch.torchrun import Torchrun
from clawloop.training.scheduler.fixed import Fixed
from clawloop.training.setup import Setup
from clawloop.training.source.replay import Replay
from clawloop.types import TaskPool
from tests.training.objective import CHOSEN, OBJECTIVE

SCRIPT = Path(__file__).with_name("stage.py")
COMMON = {"warmup": 0.0, "weight_decay": 0.1, "micro_tokens": 24, "lr": 1e-2}
SFT = {"_target_": "clawloop.training.sft.Sft", "epochs": 2, "batch_size": 5, **COMMON}
GRPO = {
    "_target_": "clawloop.training.grpo.Grpo", "epochs": 1, "batch_size": 9, "beta": 0.04, **COMMON,
}  # fmt: skip
FULL = {"_target_": "clawloop.training.adapter.full.Full"}
LORA = {"_target_": "clawloop.training.adapter.lora.Lora", "rank": 4, "alpha": 8.0}
INLINE = {"_target_": "clawloop.training.launch.inline.Inline"}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def torchrun(devices: int, **changes: Any) -> dict[str, Any]:
    target = "clawloop.training.launch.torchrun.Torchrun"
    return {"_target_": target, "devices": devices, "options": [], "prefix": [], **changes}


class Run:
    """One stage in a folder, trained by this process or by one of its own that can kill itself."""

    def __init__(self, folder: Path, weights: Path, practice: TaskPool, tracker: Any) -> None:
        self.folder, self.place = folder, folder / "training"
        self._weights, self._practice, self.tracker = weights, practice, tracker

    def __call__(
        self, stage: Any, launch: Any = INLINE, adapter: Any = FULL, objective: Any = CHOSEN, **setup: Any
    ) -> HfPolicy:
        """Theta' of the stage, trained from here."""
        setup = {"gradient_checkpointing": False, "save_every": 0} | setup
        handed = {"source": Replay(Fixed()), "tracker": self.tracker, "reached": lambda axis: 0}
        handed |= parts(objective, theta=lambda k: self.folder.parent / f"theta_{k}")
        built = part(stage, setup=Setup(**setup, folder=self.place), seed=0, **handed)
        spec = {"stage": stage, "objective": objective, "adapter": adapter, "setup": setup, "seed": 0}
        launched = part(launch, folder=self.place, **handed).over(built, part(adapter, seed=0), spec)
        trained: HfPolicy = launched(HfPolicy(self._weights, context=256), self._practice, 1)
        return trained

    def apart(self, stage: Any, launch: Any = INLINE, *, kill: int = 0, save_every: int = 0) -> subprocess.Popen[str]:
        """The same in a process that kills itself at a step."""
        setup = {"gradient_checkpointing": False, "save_every": save_every}
        run = {"weights": str(self._weights), "stage": stage, "objective": CHOSEN, "adapter": FULL, "launch": launch}
        (self.folder / "run.json").write_text(json.dumps(run | {"setup": setup, "kill": kill}))
        (self.folder / "pool.json").write_bytes(encode(self._practice))
        return subprocess.Popen([sys.executable, str(SCRIPT), str(self.folder)], stdout=subprocess.DEVNULL, text=True)


@pytest.fixture
def prepare(small_model: Path, practice: TaskPool, tracker: Any, tmp_path: Path) -> Callable[[str], Run]:
    """Makes a run of that name."""
    if "qwen3" not in (small_model / "config.json").read_text():
        pytest.skip("one network is enough")

    def make(name: str) -> Run:
        folder = tmp_path / name
        folder.mkdir()
        return Run(folder, small_model, practice, type(tracker)())

    return make


def furthest(one: HfPolicy, other: HfPolicy) -> float:
    """How far apart the weights of two policies are."""
    mine, theirs = one.model.state_dict(), other.model.state_dict()
    assert mine.keys() == theirs.keys()
    return max(float((mine[name] - theirs[name]).abs().max()) for name in mine)


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


def workers(folder: Path) -> list[int]:
    """Those of them that have a device."""
    return [pid for pid in processes(folder) if b"\0LOCAL_RANK=" in Path(f"/proc/{pid}/environ").read_bytes()]


def wait_for(seen: Callable[[], Any]) -> None:
    for _ in range(6000):
        if seen():
            return
        time.sleep(0.1)
    raise AssertionError("it did not happen within ten minutes")


@pytest.mark.parametrize(("stage", "adapter"), [(SFT, FULL), (GRPO, FULL), (GRPO, LORA)], ids=["sft", "grpo", "lora"])
def test_processes_of_their_own_train_the_same(prepare: Callable[[str], Run], stage: Any, adapter: Any) -> None:
    runs = [prepare(name) for name in ("inline", "one", "two")]
    inline, one, two = runs
    theta = inline(stage, INLINE, adapter)
    assert furthest(one(stage, torchrun(1), adapter), theta) == 0.0
    trained = two(stage, torchrun(2), adapter, gradient_checkpointing=True)
    assert furthest(trained, theta) < 1e-5
    assert trained.version == theta.version
    assert trained.adapter.keys() == theta.adapter.keys()
    assert one.tracker.steps == inline.tracker.steps
    assert one.tracker.events == two.tracker.events == inline.tracker.events
    for (_, _, mine), (_, _, theirs) in zip(two.tracker.steps, inline.tracker.steps, strict=True):
        assert mine == pytest.approx(theirs, abs=1e-5, rel=1e-4)


def test_sharded_weights_make_room_for_those_of_the_reference(prepare: Callable[[str], Run], tmp_path: Path) -> None:
    before, inline, two = (prepare(name) for name in ("before", "inline", "two"))
    before(SFT).save(tmp_path / "theta_0")
    objective = CHOSEN | {
        "reference": {"_target_": "clawloop.training.reference.Iteration"},
        "correction": {"_target_": "clawloop.training.correction.Truncated", "cap": 2.0},
    }
    stage = GRPO | {"beta": 0.5}
    theta = inline(stage, objective=objective)
    assert furthest(two(stage, torchrun(2), objective=objective), theta) < 1e-5
    kl, theirs = inline.tracker.series("kl"), two.tracker.series("kl")
    assert kl[0] > 1e-3
    assert theirs == pytest.approx(kl, rel=1e-4)


def test_two_machines_are_two_agents_that_meet(prepare: Callable[[str], Run], tmp_path: Path) -> None:
    """The prefix stands for srun: it starts the same command twice."""
    twice = tmp_path / "twice.sh"
    twice.write_text('#!/bin/sh\n"$@" & "$@"; code=$?; wait; exit $code\n')
    twice.chmod(0o755)
    options = ["--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:29411", "--rdzv-id=clawloop"]
    theta = prepare("inline")(SFT)
    assert furthest(prepare("two")(SFT, torchrun(1, options=options, prefix=[str(twice)])), theta) < 1e-5


@pytest.mark.parametrize("launch", [INLINE, torchrun(2)], ids=["inline", "torchrun"])
def test_a_run_killed_between_steps_leaves_nothing_behind_and_goes_on_to_the_same_weights(
    prepare: Callable[[str], Run], launch: Any
) -> None:
    whole, killed, stage = prepare("whole"), prepare("killed"), {**SFT, "epochs": 15}
    theta = whole(stage, launch)
    with killed.apart(stage, launch, kill=4, save_every=1) as process:
        assert process.wait() == -signal.SIGKILL
    wait_for(lambda: not processes(killed.folder))
    assert len(list(killed.place.glob("theta_1-sft/step.*"))) == 1
    assert furthest(killed(stage, launch, save_every=1), theta) == 0.0
    steps = killed.tracker.steps
    assert 0 < len(steps) < len(whole.tracker.steps)
    assert steps == whole.tracker.steps[-len(steps) :]


def test_a_killed_process_of_a_stage_is_one_sentence_and_takes_the_others_with_it(
    prepare: Callable[[str], Run],
) -> None:
    run = prepare("run")

    def log(axis: str, step: int, values: Any) -> None:
        if step == 1:
            os.kill(workers(run.place)[-1], signal.SIGKILL)

    run.tracker.log = log
    with pytest.raises(InfrastructureError) as raised:
        run({**SFT, "epochs": 400}, torchrun(2))
    said = str(raised.value)
    assert said.startswith("trainer sft: its processes ended with exit code 1 before they were done; the end of ")
    assert said.endswith(f"The logs are in {run.place / 'theta_1-sft'}; `resume` runs the stage again.")
    assert "\n" not in said
    assert not processes(run.folder)


def test_a_loss_that_is_not_finite_comes_back_in_its_own_words(prepare: Callable[[str], Run]) -> None:
    run = prepare("run")
    with pytest.raises(FloatingPointError, match="step 2: the loss or its gradient is not finite") as raised:
        run({**SFT, "lr": 1e30, "max_grad_norm": 1e30}, torchrun(2))
    (kept,) = run.place.glob("theta_1-sft/not-finite-*.json")
    assert str(kept) in str(raised.value)
    assert len(json.loads(kept.read_text())["sequences"]) == 5


def test_new_rollouts_are_refused_before_anything_starts(tmp_path: Path) -> None:
    class Fresh:
        """A source that asks the policy for new rollouts."""

    with pytest.raises(ValueError, match=r"launch=torchrun: .* source Fresh needs new rollouts .* launch=inline"):
        Torchrun(1, [], [], tmp_path, Fresh(), OBJECTIVE["reference"])  # type: ignore[arg-type]
