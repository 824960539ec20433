"""What SFT and GRPO share: batches, schedule, optimizer and the Lightning trainer around them."""

import logging
import math
import random
import warnings
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Many
from itertools import chain, islice
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import lightning
import torch
from torch.utils.data import DataLoader

from clawloop.protocols import Policy
from clawloop.training import midway, ranks
from clawloop.training.schedule import Schedule
from clawloop.training.sequences import Batches, Sequence
from clawloop.training.setup import Setup, not_finite


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
        micro: gives the loss and the numbers of one optimizer batch, calling `backward` for each of its micro-batches.
        lr: peak rate.
        schedule: the share of the peak rate at a step.
        steps: optimizer steps in all.
        warmup: the share of steps in which the rate rises.
        weight_decay: AdamW's.
        max_grad_norm: clips the gradient's norm.
        log: told (step of the axis, numbers).
        before_step: given the network after the last backward, its gradient not clipped yet; gives further numbers.
        before: the step that the axis had reached when the stage began.
        folder: the stage's own; None keeps nothing.
        save_every: steps from one that is kept to the next; 0 for none.
        done: the step that was kept there, from which it goes on.
    """

    def __init__(
        self,
        model: Any,
        micro: Callable[[list[Sequence], Callable[[torch.Tensor], None]], dict[str, float]],
        *,
        lr: float,
        schedule: Schedule,
        steps: int,
        warmup: float,
        weight_decay: float,
        max_grad_norm: float,
        log: Callable[[int, dict[str, float]], None],
        before_step: Callable[[Any], Mapping[str, float]],
        before: int,
        folder: Path | None,
        save_every: int,
        done: int,
    ) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.model = model
        self._micro, self._tell, self._before_step = micro, log, before_step
        self._lr, self._steps, self._warmup, self._schedule = lr, steps, warmup, schedule
        self._decay, self._norm, self._step = weight_decay, max_grad_norm, done
        self._before, self._folder, self._save_every = before, folder, save_every

    def configure_model(self) -> None:
        """The network comes laid out over the ranks (`ranks.shard`), for it was read before it is trained."""

    def training_step(self, batch: list[Sequence], index: int) -> None:
        """One optimizer step."""
        optimizer: Any = self.optimizers()
        rate = self._lr * self._schedule(self._step, self._steps, self._warmup)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad()
        everyone = ranks.count()  # FSDP takes the mean of their gradients, and each has its part of a sum
        numbers = self._micro(batch, lambda loss: self.manual_backward(loss * everyone))
        numbers |= self._before_step(self.model)
        norm = float(ranks.scalar(torch.nn.utils.clip_grad_norm_(self.model.parameters(), self._norm)))
        numbers |= {"lr": rate, "grad_norm": norm, "sequences": float(len(batch))}
        if not (math.isfinite(numbers["loss"]) and math.isfinite(norm)):
            raise FloatingPointError(not_finite(batch, self._step + 1, numbers, self._folder))
        optimizer.step()
        self._step += 1
        if self._folder is not None and self._save_every and self._step % self._save_every == 0:
            midway.keep(self._folder, self._step, self._before, self.model, optimizer.optimizer)
        self._tell(self._before + self._step, numbers)

    def transfer_batch_to_device(
        self, batch: list[Sequence], device: torch.device, dataloader_idx: int
    ) -> list[Sequence]:
        """Sequences are no tensors; `packing.pack` puts them where the model is."""
        return batch

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """AdamW (Table 5), in place, and with it all that was kept, also where no step is left."""
        parameters = [p for p in self.model.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(parameters, lr=self._lr, weight_decay=self._decay, fused=True)
        if self._step and self._folder is not None:
            self._before = midway.restore(self._folder, self._step, self.model, optimizer)
        return optimizer


class Epochs:
    """Every epoch in an order of its own, from the seed alone; `size` episodes a batch, each with all its sequences.

    Args:
        sequences: what is passed over.
        size: episodes a batch; the last one of an epoch may have fewer.
        epochs: passes.
        seed: of the order.
        neighbours: episodes with the same value are not torn apart by the order, so that what they share is computed
            once; only the end of a batch may come between them.

    Raises:
        ValueError: a sequence holds nothing to train.
    """

    def __init__(
        self,
        sequences: Many[Sequence],
        size: int,
        epochs: int,
        seed: str,
        neighbours: Callable[[Sequence], str] = attrgetter("episode"),
    ) -> None:
        if idle := [sequence.name for sequence in sequences if not sequence.actions]:
            raise ValueError(f"No token of {idle[0]} is the agent's, so there is nothing to train; leave it out.")
        found: dict[str, dict[str, list[Sequence]]] = {}
        for sequence in sequences:
            found.setdefault(neighbours(sequence), {}).setdefault(sequence.episode, []).append(sequence)
        self._found = [list(episodes.values()) for episodes in found.values()]
        self._size, self._epochs, self._seed = size, epochs, seed

    def __len__(self) -> int:
        return self._epochs * math.ceil(sum(map(len, self._found)) / self._size)

    def __iter__(self) -> Iterator[list[Sequence]]:
        for epoch in range(self._epochs):
            order = self._found.copy()
            random.Random(f"{self._seed}/{epoch}").shuffle(order)
            episodes = chain(*order)
            while batch := list(islice(episodes, self._size)):
                yield list(chain(*batch))


class _Stream(torch.utils.data.IterableDataset[list[Sequence]]):
    """The batches after the first `done`.

    It has a length so that Lightning does not fetch a batch ahead, which may be the work of the step before.
    """

    def __init__(self, batches: Batches, done: int) -> None:
        self._batches, self._done = batches, done

    def __len__(self) -> int:
        return len(self._batches) - self._done

    def __iter__(self) -> Iterator[list[Sequence]]:
        return islice(iter(self._batches), self._done, None)


def fit(
    model: Any,
    batches: Batches,
    micro: Callable[[list[Sequence], Callable[[torch.Tensor], None]], dict[str, float]],
    *,
    lr: float,
    schedule: Schedule,
    warmup: float,
    weight_decay: float,
    max_grad_norm: float,
    precision: str,
    log: Callable[[int, dict[str, float]], None],
    before: int,
    place: str,
    setup: Setup,
    before_step: Callable[[Any], Mapping[str, float]] = lambda model: {},
) -> None:
    """Train `model` in place, on the device where it is, with AdamW; batch n is asked for after step n - 1.

    Where `setup` says so, the stage called `place` goes on from the step that it kept last. A stage whose batches are
    made by the policy of the step before keeps none: it begins again, and finds its trials in the ledger.

    Raises:
        FloatingPointError: the loss or its gradient stopped being finite; the batch is in the folder of the stage.
    """
    device = next(model.parameters()).device
    folder = setup.folder / place if setup.folder is not None else None
    save_every = setup.save_every if isinstance(batches, Epochs) else 0
    done = midway.reached(folder) if folder is not None and save_every else 0
    module = Module(
        model,
        micro,
        lr=lr,
        schedule=schedule,
        steps=len(batches),
        warmup=warmup,
        weight_decay=weight_decay,
        max_grad_norm=max_grad_norm,
        log=log,
        before_step=before_step,
        before=before,
        folder=folder,
        save_every=save_every,
        done=done,
    )
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"`isinstance\(treespec, LeafSpec\)` is deprecated", FutureWarning)
        warnings.filterwarnings("ignore", "`gradient_checkpointing_", FutureWarning)  # renamed in transformers 5.20
        warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)
        warnings.filterwarnings(
            "ignore",
            ".*(does not have many workers|available but not used|__len__` defined|ranks is zero)",
            UserWarning,
        )
        trainer = lightning.Trainer(
            **ranks.placement(device),
            precision=_PRECISIONS[precision],
            max_epochs=1,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            use_distributed_sampler=False,
        )
        loader = DataLoader(_Stream(batches, done), batch_size=None, collate_fn=list, generator=torch.Generator())
        model.train()
        if setup.gradient_checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        try:
            trainer.fit(module, loader)
        except SystemExit as end:  # what Lightning makes of Ctrl-C
            raise KeyboardInterrupt from end
        finally:
            if setup.gradient_checkpointing:
                model.gradient_checkpointing_disable()
    model.to(device).eval()  # Lightning leaves it on the CPU
