"""GRPO on the admission rollouts (paper, 4.2; Eq. 2; Algorithm 1, line 19)."""

from collections.abc import Callable
from dataclasses import replace
from statistics import fmean

import torch

from clawloop.protocols import Policy, Tracker
from clawloop.training import loss
from clawloop.training.attention import takes_trees
from clawloop.training.fit import autocast, check, fit, trainable
from clawloop.training.logprobs import token_logprobs
from clawloop.training.packing import cut, pack
from clawloop.training.source import Sequence, groups
from clawloop.types import TaskPool


class Grpo:
    """Trains on the groups of the practice tasks, with the clipped surrogate and a KL to the reference.

    The mean is over trajectories of the mean over each one's trained tokens (Shao et al. 2024). The reference is
    theta', the policy that enters the stage: the paper does not say which, and line 19 starts from it. Its
    log-probabilities are computed once, before the first step, so that no second model is held. At the first step
    `drift` is logged: the mean distance, in nats a token, from the behaviour log-probabilities of the ledger to those
    of the reference, which is SFT's doing.

    Args:
        lr: peak rate (Table 5).
        epochs: passes over the groups.
        batch_size: trajectories an optimizer step.
        warmup: the share of steps in which the rate rises.
        weight_decay: AdamW's.
        beta: weight of the KL.
        clip: the ratio is clipped to 1 - clip ... 1 + clip.
        epsilon: added to a group's standard deviation.
        schedule: cosine is the only one.
        lr_multiplier: a scale's factor on `lr`.
        max_tokens: longer sequences are left out and named.
        micro_tokens: tokens a forward pass.
        precision: float32 or bfloat16.
        max_grad_norm: not stated in the paper; 1 is customary.
        seed: the run's seed.
        tracker: where the numbers go: axis grpo.
        reached: the step that an axis has reached, so that it goes on over iterations and resumes.
    """

    name = "grpo"

    def __init__(
        self,
        lr: float,
        epochs: int,
        batch_size: int,
        warmup: float,
        weight_decay: float,
        beta: float,
        clip: float,
        epsilon: float,
        schedule: str = "cosine",
        lr_multiplier: float = 1.0,
        max_tokens: int = 65_536,
        micro_tokens: int = 8_192,
        precision: str = "float32",
        max_grad_norm: float = 1.0,
        seed: int = 0,
        tracker: Tracker | None = None,
        reached: Callable[[str], int] = lambda axis: 0,
    ) -> None:
        check(self.name, schedule, precision)
        self._lr, self._epochs, self._batch_size = lr * lr_multiplier, epochs, batch_size
        self._warmup, self._decay, self._norm = warmup, weight_decay, max_grad_norm
        self._beta, self._clip, self._epsilon = beta, clip, epsilon
        self._max_tokens, self._micro_tokens, self._precision = max_tokens, micro_tokens, precision
        self._seed, self._tracker, self._reached = seed, tracker, reached

    def __call__(self, policy: Policy, practice: TaskPool, k: int) -> Policy:
        """Theta_k: the policy after GRPO on T_k, in place.

        Raises:
            TypeError: the policy has no weights in this process.
            ValueError: it samples greedily, which gives no log-probabilities to compare with.
        """
        target = trainable(policy, self.name)
        if target.temperature <= 0:
            raise ValueError(f"trainer grpo: the policy samples at temperature {target.temperature}; set one above 0.")
        drawn = groups(practice, self._max_tokens, self._epsilon)
        if self._tracker is not None:
            detail = {"k": k, "sequences": len(drawn.sequences), "groups": drawn.groups, "dropped": drawn.unanimous}
            self._tracker.event("grpo/data", detail | {"too_long": list(drawn.too_long), "empty": drawn.empty})
        if drawn.sequences:
            self._fit(target.model, target.temperature, drawn.sequences, k)
        return target.renamed(f"theta_{k}-grpo")

    def _fit(self, model: torch.nn.Module, temperature: float, sequences: tuple[Sequence, ...], k: int) -> None:
        device = next(model.parameters()).device
        sequences = self._with_reference(model, temperature, sequences, device)
        drift = fmean(
            abs(one.reference[t] - behaviour)
            for one in sequences
            for t, behaviour in enumerate(one.logprobs or ())
            if t and one.mask[t]
        )
        before = self._reached(self.name)

        def micro(batch: list[Sequence], backward: Callable[[torch.Tensor], None]) -> dict[str, float]:
            sums = dict.fromkeys(("loss", "kl", "clip_fraction", "ratio"), 0.0)
            for part in cut(batch, self._micro_tokens, takes_trees(model)):
                chosen = [batch[i] for i in part]
                packed = pack(chosen, [1 / (len(batch) * one.actions) for one in chosen], device)
                logprobs = token_logprobs(model, packed, temperature)
                found = loss.grpo(logprobs, packed, clip=self._clip, beta=self._beta)
                backward(found.loss)
                for name, value in zip(sums, (found.loss, found.kl, found.clipped, found.ratio), strict=True):
                    sums[name] += float(value.detach())
            reward = sum(one.reward for one in batch) / len(batch)
            return sums | {"reward": reward, "tokens": float(sum(one.actions for one in batch))}

        def log(step: int, numbers: dict[str, float]) -> None:
            if self._tracker is not None:
                self._tracker.log(self.name, before + step, numbers | ({"drift": drift} if step == 1 else {}))

        fit(
            model,
            sequences,
            micro,
            lr=self._lr,
            epochs=self._epochs,
            batch_size=self._batch_size,
            warmup=self._warmup,
            weight_decay=self._decay,
            max_grad_norm=self._norm,
            precision=self._precision,
            seed=f"{self._seed}/{k}/{self.name}",
            log=log,
        )

    @torch.no_grad()
    def _with_reference(
        self, model: torch.nn.Module, temperature: float, sequences: tuple[Sequence, ...], device: torch.device
    ) -> tuple[Sequence, ...]:
        """The sequences with the log-probabilities that the policy has now."""
        found = [[0.0] * len(sequence.ids) for sequence in sequences]
        for part in cut(sequences, self._micro_tokens, takes_trees(model)):
            packed = pack([sequences[i] for i in part], [1.0] * len(part), device)
            with autocast(device, self._precision):
                values = token_logprobs(model, packed, temperature).tolist()
            for (i, t), value in zip(packed.origin, values, strict=True):
                found[part[i]][t] = value
        return tuple(replace(one, reference=tuple(values)) for one, values in zip(sequences, found, strict=True))
