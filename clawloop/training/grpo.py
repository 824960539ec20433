"""GRPO on groups of rollouts (paper, 4.2; Eq. 2; Algorithm 1, line 19)."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from clawloop.protocols import Policy, Tracker
from clawloop.training import step
from clawloop.training.correction import Correction
from clawloop.training.fit import Trainable, check, fit, trainable
from clawloop.training.loss import Choices
from clawloop.training.reference import Reference, Weights, standing_in
from clawloop.training.schedule import Schedule
from clawloop.training.sequences import Batches, Drawn, Sequence, Source, Wanted, groups
from clawloop.training.setup import Setup
from clawloop.types import TaskPool


class Grpo:
    """Trains on the groups of the practice tasks, with a surrogate and a KL to a reference.

    What the loss is made of are parts, one of each group: `advantage`, `clip`, `normalisation`, `ratio`, `kl`,
    `reference` and `correction`. Log-probabilities of the reference and of theta_old are computed once a sequence, and
    only where they are needed, so that no second model is held. The drift of a step is its distance
    from the behaviour log-probabilities of the ledger. At the first step of an iteration, and at every step where lr is
    0, that is the difference between the engine that sampled and this trainer, and what SFT did in between.

    Args:
        source: where the batches come from.
        lr: peak rate (Table 5).
        epochs: passes over the groups of a source that has them beforehand.
        batch_size: trajectories an optimizer step.
        warmup: the share of steps in which the rate rises.
        weight_decay: AdamW's.
        beta: weight of the KL; with 0 there is none, and no reference.
        advantage: from the rewards of a group to its advantages.
        clip: from a ratio to the clipped one.
        normalisation: what a token weighs.
        ratio: from log-ratios of tokens to ratios.
        kl: the estimator.
        reference: the policy that the KL is measured to.
        correction: what the ratio is to, and the weight of the difference to the behaviour.
        schedule: the share of the peak rate at a step.
        lr_multiplier: a scale's factor on `lr`.
        max_tokens: longer sequences are left out and named.
        micro_tokens: tokens a forward pass.
        precision: float32 or bfloat16.
        max_grad_norm: not stated in the paper; 1 is customary.
        seed: the run's seed.
        tracker: where the numbers go: axis grpo.
        reached: the step that an axis has reached, so that it goes on over iterations and resumes.
        setup: how the stage is run.
    """

    name = "grpo"

    def __init__(
        self,
        source: Source,
        lr: float,
        epochs: int,
        batch_size: int,
        warmup: float,
        weight_decay: float,
        beta: float,
        advantage: Callable[[list[float]], list[float]],
        clip: Callable[[torch.Tensor], torch.Tensor],
        normalisation: Callable[[int, int, int], float],
        ratio: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
        kl: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
        reference: Reference,
        correction: Correction,
        schedule: Schedule,
        lr_multiplier: float = 1.0,
        max_tokens: int = 65_536,
        micro_tokens: int = 8_192,
        precision: str = "float32",
        max_grad_norm: float = 1.0,
        seed: int = 0,
        tracker: Tracker | None = None,
        reached: Callable[[str], int] = lambda axis: 0,
        setup: Setup = Setup(),  # noqa: B008 (frozen)
    ) -> None:
        check(self.name, precision)
        self._source = source
        self._lr, self._epochs, self._batch_size = lr * lr_multiplier, epochs, batch_size
        self._warmup, self._schedule, self._decay, self._norm = warmup, schedule, weight_decay, max_grad_norm
        self._advantage, self._normalisation, self._reference = advantage, normalisation, reference
        self._choices = Choices(clip, ratio, kl, correction, beta)
        self._max_tokens, self._micro_tokens, self._precision = max_tokens, micro_tokens, precision
        self._seed, self._tracker, self._reached, self._setup = seed, tracker, reached, setup

    def __call__(self, policy: Policy, practice: TaskPool, k: int) -> Policy:
        """Theta_k: the policy after GRPO on T_k, in place.

        Raises:
            TypeError: the policy has no weights in this process.
            ValueError: it samples greedily, which gives no log-probabilities to compare with.
        """
        target = trainable(policy, self.name)
        if target.temperature <= 0:
            raise ValueError(f"trainer grpo: the policy samples at temperature {target.temperature}; set one above 0.")

        def draw(pool: TaskPool) -> Drawn:
            return groups(pool, self._max_tokens, self._advantage)

        def prepare(sequences: tuple[Sequence, ...], entered: Weights | None) -> tuple[Sequence, ...]:
            return self._known(target, sequences, k, entered)

        seed = f"{self._seed}/{k}/{self.name}"
        entered = bool(self._choices.beta) and self._reference.weights(k) is None
        wanted = Wanted(draw, prepare, self._batch_size, self._epochs, seed, entered)
        batches, detail = self._source.open(policy, practice, k, wanted)
        if self._tracker is not None:
            self._tracker.event("grpo/data", {"k": k, **detail})
        if len(batches):
            self._fit(target, batches, f"theta_{k}-{self.name}")
        return target.renamed(f"theta_{k}-grpo")

    def state(self) -> bytes:
        """What the source knows (`protocols.Stateful`)."""
        return self._source.state()

    def restore(self, state: bytes) -> None:
        """Go on from there."""
        self._source.restore(state)

    def _fit(self, target: Trainable, batches: Batches, place: str) -> None:
        def micro(batch: list[Sequence], backward: step.Backward) -> dict[str, float]:
            return step.grpo(
                target.model,
                batch,
                backward,
                self._choices,
                self._normalisation,
                temperature=target.temperature,
                micro_tokens=self._micro_tokens,
            )

        def log(at: int, numbers: dict[str, float]) -> None:
            if self._tracker is not None:
                self._tracker.log(self.name, at, numbers)

        fit(
            target.model,
            batches,
            micro,
            lr=self._lr,
            warmup=self._warmup,
            schedule=self._schedule,
            weight_decay=self._decay,
            max_grad_norm=self._norm,
            precision=self._precision,
            log=log,
            before=self._reached(self.name),
            place=place,
            setup=self._setup,
            before_step=self._source.before_step,
        )

    def _known(
        self, target: Trainable, sequences: tuple[Sequence, ...], k: int, entered: Weights | None
    ) -> tuple[Sequence, ...]:
        """The sequences with what the reference and theta_old, the policy as it is now, say of them, where needed.

        `entered` are the weights that the stage began with, where those of now are others.
        """

        def by(weights: Path | Weights | None) -> list[tuple[float, ...]]:
            with standing_in(target.model, weights):
                return step.logprobs(
                    target.model,
                    sequences,
                    temperature=target.temperature,
                    micro_tokens=self._micro_tokens,
                    precision=self._precision,
                )

        reference: list[tuple[float, ...]] = [()] * len(sequences)
        old = reference
        weights = (self._reference.weights(k) or entered) if self._choices.beta else None
        if self._choices.beta:
            reference = by(weights)
        if self._choices.correction.on_old:
            old = reference if self._choices.beta and weights is None else by(None)
        return tuple(replace(one, reference=r, old=o) for one, r, o in zip(sequences, reference, old, strict=True))
