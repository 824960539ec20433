"""One process of a stage: `torchrun ... -m clawloop.build.worker FOLDER` (see `training.launch.torchrun`)."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

import torch
from torch import distributed

from clawloop.build.part import part, parts
from clawloop.policy.adapter import attached, merge
from clawloop.policy.network import Network
from clawloop.store.ledger import decode
from clawloop.training import ranks
from clawloop.training.launch.agent import die_with_parent
from clawloop.training.scheduler.fixed import Fixed
from clawloop.training.setup import Setup
from clawloop.training.source.replay import Replay
from clawloop.types import TaskPool


class Teller:
    """Tells a tracker in another process: one JSON list a line, the method and its values."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def log(self, axis: str, step: int, values: Mapping[str, float]) -> None:
        """Numbers of one step of an axis."""
        self._tell("log", axis, step, values)

    def event(self, name: str, detail: Mapping[str, object]) -> None:
        """Something that happened."""
        self._tell("event", name, detail)

    def progress(self, phase: str, done: int, total: int) -> None:
        """How far a phase is."""
        self._tell("progress", phase, done, total)

    def close(self, exit_code: int) -> None:
        """The other process closes its tracker."""

    def _tell(self, *what: object) -> None:
        self._out.write(json.dumps(what, default=str) + "\n")
        self._out.flush()


def main(folder: Path) -> None:
    """Train the stage that a folder describes, and leave the weights there."""
    rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    teller = Teller(os.fdopen(os.dup(1), "w", encoding="utf-8"))
    log = os.open(folder / f"rank-{rank}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(log, 1)  # nothing but what is told goes to the other process
    os.dup2(log, 2)
    gpu = torch.cuda.is_available()
    if gpu:
        torch.cuda.set_device(local)
    distributed.init_process_group("nccl" if gpu else "gloo")
    try:
        _train(folder, f"cuda:{local}" if gpu else "cpu", teller if rank == 0 else None)
    except FloatingPointError as error:
        if rank == 0:
            (folder / "refused.json").write_text(json.dumps(str(error)), encoding="utf-8")
        distributed.barrier()
        raise
    distributed.destroy_process_group()


def _train(folder: Path, device: str, teller: Teller | None) -> None:
    spec = json.loads((folder / "spec.json").read_text("utf-8"))
    k, setup, seed = int(spec["k"]), spec["setup"], int(spec["seed"])
    objective = parts(spec["objective"], theta=lambda k: Path(spec["theta"]))
    stage = part(
        spec["stage"],
        **objective,
        source=Replay(Fixed()),
        seed=seed,
        tracker=teller,
        reached=lambda axis: spec["reached"],
        setup=Setup(setup["gradient_checkpointing"], setup["save_every"], folder.parent),
    )
    adapter = part(spec["adapter"], seed=seed)
    network = _network(folder, spec, device)
    adapter.attach(network.model, folder.name)
    ranks.shard(network.model)
    stage(network, decode((folder / "pool.json").read_bytes(), TaskPool), k)
    state = ranks.full_state(network.model)
    if ranks.number() == 0:
        trained = _network(folder, spec, "cpu")
        adapter.attach(trained.model, folder.name)
        trained.model.load_state_dict(state)
        if attached(trained.model):
            trained.adapter = merge(trained.model)
        trained.save(folder / "unfinished-trained")
        (folder / "unfinished-trained").rename(folder / "trained")
    distributed.barrier()


def _network(folder: Path, spec: Mapping[str, Any], device: str) -> Network:
    return Network(folder / "weights", "theta", spec["temperature"], 1 << 30, None, device)


if __name__ == "__main__":
    die_with_parent()
    main(Path(sys.argv[1]))
