"""Each stage in processes of its own, one a device, so that all memory is free for the engine between stages."""

import gc
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from clawloop.protocols import InfrastructureError, Policy, Stage, Tracker
from clawloop.store.ledger import encode
from clawloop.training.fit import Sleeper, trainable
from clawloop.training.launch.agent import PARENT
from clawloop.training.launch.launcher import Adapter
from clawloop.training.reference import Reference
from clawloop.training.sequences import Source
from clawloop.training.source.replay import Replay
from clawloop.types import TaskPool


class Torchrun:
    """Stages run by torchrun: the network is sharded over the devices (FSDP2), and they share each batch out.

    A stage's folder has what its processes read (spec.json, pool.json, weights/), what they keep, their logs, and at
    the end the trained weights (trained/). They end with this process, however it ends.

    Args:
        devices: on each machine.
        options: further options of torchrun, such as --nnodes=2.
        prefix: words before the command, such as srun with its options, by which it is started on every machine.
        folder: where stages have their folders; all machines must see it.
        tracker: told what rank 0 tells.
        source: where GRPO's batches come from.
        reference: to which policy its KL is.
        reached: the step that an axis has reached.

    Raises:
        ValueError: the batches are new rollouts, which processes that only train cannot make.
    """

    def __init__(
        self,
        devices: int,
        options: list[str],
        prefix: list[str],
        folder: Path,
        source: Source,
        reference: Reference,
        tracker: Tracker | None = None,
        reached: Callable[[str], int] = lambda axis: 0,
    ) -> None:
        if not isinstance(source, Replay):
            name = type(source).__name__
            raise ValueError(
                f"launch=torchrun: the processes of a stage only train, and source {name} needs new rollouts between "
                "steps; choose launch=inline, or source=replay."
            )
        self._devices, self._options, self._prefix = devices, options, prefix
        self._folder, self._reference, self._tracker, self._reached = folder, reference, tracker, reached

    def over(self, stage: Stage, adapter: Adapter, spec: Mapping[str, Any]) -> Stage:
        """The stage in processes of its own; these attach the adapter themselves."""
        return _Launched(stage.name, self, spec)

    def run(self, stage: str, policy: Policy, practice: TaskPool, k: int, spec: Mapping[str, Any]) -> Policy:
        """Train in processes of their own, and put the weights that come out into the policy.

        Raises:
            FloatingPointError: the loss or its gradient stopped being finite.
            InfrastructureError: the processes ended before they were done; with the last lines of their log.
        """
        folder = self._folder / f"theta_{k}-{stage}"
        for old in ("weights", "unfinished-trained", "trained"):
            shutil.rmtree(folder / old, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        for log in folder.glob("*.log"):
            log.unlink()
        target = trainable(policy, stage)
        device = next(target.model.parameters()).device
        policy.save(folder / "weights")
        (folder / "pool.json").write_bytes(encode(practice))
        known = {"k": k, "temperature": target.temperature, "reached": self._reached(stage)}
        theta = self._reference.weights(k) if spec["stage"].get("beta") else None
        content = {**spec, **known, "theta": theta}
        (folder / "spec.json").write_text(json.dumps(content, default=str), encoding="utf-8")
        target.model.to("cpu")
        gc.collect()
        torch.cuda.empty_cache()  # without a GPU it does nothing
        self._train(stage, folder)
        trained = policy.load(folder / "trained", f"theta_{k}-{stage}")
        if not isinstance(policy, Sleeper):
            target.model.to(device)
        return trained

    def _train(self, stage: str, folder: Path) -> None:
        with self._started(folder) as process:
            assert process.stdout is not None
            for line in process.stdout:
                self._hear(line)
            code = process.wait()
        refusal = folder / "refused.json"
        if code and refusal.is_file():
            raise FloatingPointError(json.loads(refusal.read_text()))
        if code or not (folder / "trained").is_dir():
            raise InfrastructureError(
                f"trainer {stage}: its processes ended with exit code {code} before they were done; {_tail(folder)} "
                f"The logs are in {folder}; `resume` runs the stage again."
            )

    @contextmanager
    def _started(self, folder: Path) -> Iterator[subprocess.Popen[str]]:
        """The processes; none is left when the block is."""
        words = [sys.executable, "-m", "clawloop.training.launch.agent", f"--nproc-per-node={self._devices}"]
        rendezvous = [] if any("nnodes" in option for option in self._options) else ["--standalone"]
        words += [*rendezvous, *self._options, "-m", "clawloop.build.worker", str(folder)]
        threads = max(1, torch.get_num_threads() // self._devices)
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        if not self._prefix:
            environment[PARENT] = str(os.getpid())
        (folder / "refused.json").unlink(missing_ok=True)
        with (folder / "torchrun.log").open("wb") as log:
            process = subprocess.Popen(
                [*self._prefix, *words], stdout=subprocess.PIPE, stderr=log, env=environment, text=True,
                start_new_session=True,
            )  # fmt: skip
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()  # the agent ends its workers
                process.wait()

    def _hear(self, line: str) -> None:
        method, *values = json.loads(line)
        if self._tracker is not None:
            getattr(self._tracker, method)(*values)


class _Launched:
    """A stage in processes of its own."""

    def __init__(self, name: str, launcher: Torchrun, spec: Mapping[str, Any]) -> None:
        self.name, self._launcher, self._spec = name, launcher, spec

    def __call__(self, policy: Policy, practice: TaskPool, k: int) -> Policy:
        """Theta'."""
        return self._launcher.run(self.name, policy, practice, k, self._spec)


def _tail(folder: Path) -> str:
    """What the rank that ended first said last, or torchrun."""
    logs = [path for path in folder.glob("rank-*.log") if path.stat().st_size]
    first = min(logs, key=lambda path: path.stat().st_mtime, default=folder / "torchrun.log")
    lines = [line.strip() for line in first.read_text("utf-8", "replace").splitlines() if line.strip()]
    return f"the end of {first.name}: {' / '.join(lines[-3:]) or 'nothing'}."
