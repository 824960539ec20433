"""What SFT and GRPO share: batches, schedule, optimizer and the Lightning trainer around them."""

import logging
import math
import random
import warnings
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Many
from itertools import chain
from typing import Any, Literal, Protocol, runtime_checkable

import lightning
import torch
from torch.utils.data import DataLoader

from clawloop.protocols import Policy
from clawloop.training.schedule import Schedule
from clawloop.training.source import Sequence


@runtime_checkable
class Trainable(Protocol):
    """A policy whose weights are in this process: `model` is trained in place, and `renamed` drops what was cached."""

    model: Any
    temperature: float

    def renamed(self, version: str) -> Policy:
        """The same policy under another name."""


@runtime_checkable
class Sleeper(Protocol):
    """A policy whose engine gives its memory back while the weights are trained; `renamed` wakes it."""

    def sleep(self) -> None:
        """Make room."""


def trainable(policy: object, stage: str) -> Trainable:
    """The policy, if it can be trained, with its engine asleep where it has one.

    Raises:
        TypeError: it has no weights in this process.
    """
    if not isinstance(policy, Trainable):
        kind = type(policy).__name__
        raise TypeError(f"trainer {stage}: {kind} has no weights to train; choose policy=hf or trainer=[].")
    if isinstance(policy, Sleeper):
        policy.sleep()
    return policy


_PRECISIONS: dict[str, Literal["32-true", "bf16-mixed"]] = {"float32": "32-true", "bfloat16": "bf16-mixed"}


def check(stage: str, precision: str) -> None:
    """Refuse what no stage knows.

    Raises:
        ValueError: the precision is unknown.
    """
    if precision not in _PRECISIONS:
        raise ValueError(f"trainer.{stage}.precision is {precision!r}; choose {' or '.join(_PRECISIONS)}.")


def autocast(device: torch.device, precision: str) -> torch.autocast:
    """What Lightning wraps around a step, for forward passes outside of one."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16")


class Module(lightning.LightningModule):
    """One optimizer step a batch; the batch is cut into micro-batches inside, so that the loss is exact.

    Args:
        model: the network.
        micro: gives the loss and the numbers of one optimizer batch, calling `backward` for each micro-batch.
        lr: peak rate.
        steps: optimizer steps in all.
        warmup: the share of steps in which the rate rises.
        schedule: the share of the peak rate at a step.
        weight_decay: AdamW's.
        max_grad_norm: clips the gradient's norm.
        log: told (step, numbers).
    """

    def __init__(
        self,
        model: Any,
        micro: Callable[[list[Sequence], Callable[[torch.Tensor], None]], dict[str, float]],
        *,
        lr: float,
        steps: int,
        warmup: float,
        schedule: Schedule,
        weight_decay: float,
        max_grad_norm: float,
        log: Callable[[int, dict[str, float]], None],
    ) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.model = model
        self._micro, self._tell = micro, log
        self._lr, self._steps, self._warmup, self._schedule = lr, steps, warmup, schedule
        self._decay, self._norm, self._step = weight_decay, max_grad_norm, 0

    def training_step(self, batch: list[Sequence], index: int) -> None:
        """One optimizer step."""
        optimizer: Any = self.optimizers()
        rate = self._lr * self._schedule(self._step, self._steps, self._warmup)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad()
        numbers = self._micro(batch, self.manual_backward)
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self._norm)
        if not (math.isfinite(numbers["loss"]) and torch.isfinite(norm)):
            names = ", ".join(sequence.name for sequence in batch[:3])
            raise FloatingPointError(
                f"step {self._step + 1}: the loss or its gradient is not finite (batch of {names}, ...); lower lr."
            )
        optimizer.step()
        self._step += 1
        self._tell(self._step, numbers | {"lr": rate, "grad_norm": float(norm), "sequences": float(len(batch))})

    def transfer_batch_to_device(
        self, batch: list[Sequence], device: torch.device, dataloader_idx: int
    ) -> list[Sequence]:
        """Sequences are no tensors; `packing.pack` puts them where the model is."""
        return batch

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """AdamW (Table 5), in place: nothing of the size of the model is made in a step."""
        parameters = [p for p in self.model.parameters() if p.requires_grad]
        return torch.optim.AdamW(parameters, lr=self._lr, weight_decay=self._decay, fused=True)


class _Batches:
    """Every epoch in an order of its own, from the seed alone; `size` episodes a batch, each with all its sequences."""

    def __init__(self, sequences: Many[Sequence], size: int, epochs: int, seed: str) -> None:
        episodes: dict[str, list[Sequence]] = {}
        for sequence in sequences:
            episodes.setdefault(sequence.episode, []).append(sequence)
        self._episodes, self._size, self._epochs, self._seed = list(episodes.values()), size, epochs, seed

    def __len__(self) -> int:
        return self._epochs * math.ceil(len(self._episodes) / self._size)

    def __iter__(self) -> Iterator[list[Sequence]]:
        for epoch in range(self._epochs):
            order = self._episodes.copy()
            random.Random(f"{self._seed}/{epoch}").shuffle(order)
            yield from (list(chain(*order[i : i + self._size])) for i in range(0, len(order), self._size))


class _Stream(torch.utils.data.IterableDataset[list[Sequence]]):
    def __init__(self, batches: _Batches) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[list[Sequence]]:
        return iter(self._batches)


def fit(
    model: Any,
    sequences: Many[Sequence],
    micro: Callable[[list[Sequence], Callable[[torch.Tensor], None]], dict[str, float]],
    *,
    lr: float,
    epochs: int,
    batch_size: int,
    warmup: float,
    schedule: Schedule,
    weight_decay: float,
    max_grad_norm: float,
    precision: str,
    seed: str,
    log: Callable[[int, dict[str, float]], None],
) -> None:
    """Train `model` in place, on the device where it is, with AdamW.

    Raises:
        ValueError: a sequence holds nothing to train.
        FloatingPointError: the loss or its gradient stopped being finite.
    """
    if idle := [sequence.name for sequence in sequences if not sequence.actions]:
        raise ValueError(f"No token of {idle[0]} is the agent's, so there is nothing to train; leave it out.")
    device = next(model.parameters()).device
    batches = _Batches(sequences, batch_size, epochs, seed)
    module = Module(
        model,
        micro,
        lr=lr,
        steps=len(batches),
        warmup=warmup,
        schedule=schedule,
        weight_decay=weight_decay,
        max_grad_norm=max_grad_norm,
        log=log,
    )
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"`isinstance\(treespec, LeafSpec\)` is deprecated", FutureWarning)
        warnings.filterwarnings("ignore", ".*(does not have many workers|available but not used)", UserWarning)
        trainer = lightning.Trainer(
            accelerator="gpu" if device.type == "cuda" else "cpu",
            devices=[device.index or 0] if device.type == "cuda" else 1,
            precision=_PRECISIONS[precision],
            max_epochs=1,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        loader = DataLoader(_Stream(batches), batch_size=None, collate_fn=list, generator=torch.Generator())
        model.train()
        trainer.fit(module, loader)
    model.to(device).eval()  # Lightning leaves it on the CPU
