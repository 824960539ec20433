"""Runs one stage in a process of its own, which can be made to kill itself: stage.py FOLDER.

FOLDER holds run.json (weights, stage, objective, adapter, launch, setup, kill) and pool.json; trained/ and numbers.json
come out.
"""

import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

import torch

from clawloop.build.part import part, parts
from clawloop.policy.hf import HfPolicy
from clawloop.store.ledger import decode
from clawloop.training.scheduler.fixed import Fixed
from clawloop.training.setup import Setup
from clawloop.training.source.replay import Replay
from clawloop.types import TaskPool


class Numbers:
    """Remembers what is logged, and kills this process at a step."""

    def __init__(self, kill: int) -> None:
        self.steps: list[tuple[int, Mapping[str, float]]] = []
        self.kill = kill

    def log(self, axis: str, step: int, values: Mapping[str, float]) -> None:
        self.steps.append((step, values))
        if step == self.kill:
            os.kill(os.getpid(), signal.SIGKILL)

    def event(self, name: str, detail: Mapping[str, object]) -> None:
        assert detail["k"] == 1


if __name__ == "__main__":
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    run = json.loads((folder / "run.json").read_text())
    numbers = Numbers(run["kill"])
    handed = {"source": Replay(Fixed()), "tracker": numbers, "reached": lambda axis: len(numbers.steps)}
    handed |= parts(run["objective"])
    setup = Setup(**run["setup"], folder=folder / "training")
    stage = part(run["stage"], setup=setup, seed=0, **handed)
    spec = {name: run[name] for name in ("stage", "objective", "adapter", "setup")} | {"seed": 0}
    launch = part(run["launch"], folder=folder / "training", **handed)
    launched = launch.over(stage, part(run["adapter"], seed=0), spec)
    policy = HfPolicy(run["weights"], context=256)
    trained = launched(policy, decode((folder / "pool.json").read_bytes(), TaskPool), 1)
    trained.save(folder / "trained")
    (folder / "numbers.json").write_text(json.dumps([trained.version, numbers.steps]))
