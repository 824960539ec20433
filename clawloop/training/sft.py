"""Self-distilled SFT with multi-turn loss masking (paper, 4.2; Eq. 1; Algorithm 1, line 18)."""

from collections.abc import Callable
from collections.abc import Sequence as Many

from clawloop.protocols import Policy, Tracker
from clawloop.training import step
from clawloop.training.fit import Epochs, check, fit, trainable
from clawloop.training.schedule import Schedule
from clawloop.training.sequences import Sequence, successes
from clawloop.training.setup import Setup
from clawloop.types import TaskPool


class Sft:
    """Trains on the agent's own successes, its action tokens only, end of turn included.

    Eq. 1 is a sum over all tokens; here it is divided by the trained tokens of the optimizer batch, a constant of the
    step that does not depend on how the batch is cut.

    Args:
        lr: peak rate (Table 5).
        epochs: passes over the successes.
        batch_size: trajectories an optimizer step.
        warmup: the share of steps in which the rate rises.
        weight_decay: AdamW's.
        schedule: the share of the peak rate at a step.
        lr_multiplier: a scale's factor on `lr`.
        max_tokens: longer sequences are left out and named.
        micro_tokens: tokens a forward pass.
        precision: float32 or bfloat16.
        max_grad_norm: not stated in the paper; 1 is customary.
        seed: the run's seed.
        tracker: where the numbers go.
        axis: under which name they go there.
        reached: the step that an axis has reached, so that it goes on over iterations and resumes.
        setup: how the stage is run.
    """

    name = "sft"

    def __init__(
        self,
        lr: float,
        epochs: int,
        batch_size: int,
        warmup: float,
        weight_decay: float,
        schedule: Schedule,
        lr_multiplier: float = 1.0,
        max_tokens: int = 65_536,
        micro_tokens: int = 8_192,
        precision: str = "float32",
        max_grad_norm: float = 1.0,
        seed: int = 0,
        tracker: Tracker | None = None,
        axis: str = "sft",
        reached: Callable[[str], int] = lambda axis: 0,
        setup: Setup = Setup(),  # noqa: B008 (frozen)
    ) -> None:
        check(self.name, precision)
        self._lr, self._epochs, self._batch_size = lr * lr_multiplier, epochs, batch_size
        self._warmup, self._schedule, self._decay, self._norm = warmup, schedule, weight_decay, max_grad_norm
        self._max_tokens, self._micro_tokens, self._precision = max_tokens, micro_tokens, precision
        self._seed, self._tracker, self._axis, self._reached = seed, tracker, axis, reached
        self._setup = setup

    def __call__(self, policy: Policy, practice: TaskPool, k: int) -> Policy:
        """Theta': the policy after SFT on T_k, in place."""
        target = trainable(policy, self.name)
        drawn = successes(practice, self._max_tokens)
        if self._tracker is not None:
            detail = {"k": k, "sequences": len(drawn.sequences), "too_long": list(drawn.too_long), "empty": drawn.empty}
            self._tracker.event("sft/data", detail)
        self.fit(policy, drawn.sequences, k)
        return target.renamed(f"theta_{k}-sft")

    def fit(self, policy: Policy, sequences: Many[Sequence], k: int) -> None:
        """Train on given sequences; on none, nothing happens."""
        if not sequences:
            return
        model = trainable(policy, self.name).model

        def micro(batch: list[Sequence], backward: step.Backward) -> dict[str, float]:
            return step.sft(model, batch, backward, micro_tokens=self._micro_tokens)

        def log(at: int, numbers: dict[str, float]) -> None:
            if self._tracker is not None:
                self._tracker.log(self._axis, at, numbers)

        fit(
            model,
            Epochs(sequences, self._batch_size, self._epochs, f"{self._seed}/{k}/{self.name}"),
            micro,
            lr=self._lr,
            warmup=self._warmup,
            schedule=self._schedule,
            weight_decay=self._decay,
            max_grad_norm=self._norm,
            precision=self._precision,
            log=log,
            before=self._reached(self._axis),
            place=f"theta_{k}-{self.name}",
            setup=self._setup,
        )
