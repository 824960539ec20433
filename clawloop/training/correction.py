"""The group `correction`: what "old" is in the ratio pi_theta / pi_old, and what the difference to the sampler weighs.

Three policies meet in a step. The behaviour sampled the rollouts; its log-probabilities are the engine's, from the
ledger. Theta_old is the policy that enters the stage, or with fresh rollouts the step, by the trainer's own forward
pass. Theta is trained. Behaviour and theta_old differ by the engine's arithmetic, and for replayed rollouts by all
training since, such as SFT.

Shapes: A trained tokens.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor


class Correction(Protocol):
    """What both options are."""

    @property
    def on_old(self) -> bool:
        """Whether the log-probabilities of theta_old are needed, which costs a forward pass of all rollouts."""
        ...

    def __call__(self, behaviour_A: Tensor, old_A: Tensor) -> tuple[Tensor, Tensor]:
        """The log-probabilities that the ratio is to, and a constant factor of each token's gain; both [A]."""


class NoCorrection:
    """Old is the behaviour: one ratio covers both differences, and rollouts from before SFT are off-policy in it."""

    on_old: ClassVar[bool] = False

    def __call__(self, behaviour_A: Tensor, old_A: Tensor) -> tuple[Tensor, Tensor]:
        """The behaviour, and ones."""
        return behaviour_A, torch.ones_like(behaviour_A)


@dataclass(frozen=True, slots=True)
class Truncated:
    """Old is theta_old: the clip bounds how far this stage moves, and min(pi_old / pi_behaviour, cap) weighs the rest.

    Truncated importance sampling (Yao et al. 2025); for replayed rollouts, decoupled PPO (Hilton et al. 2022).

    Args:
        cap: the largest factor.
    """

    cap: float
    on_old: ClassVar[bool] = True

    def __call__(self, behaviour_A: Tensor, old_A: Tensor) -> tuple[Tensor, Tensor]:
        """Theta_old, and the truncated importance weights."""
        return old_A, (old_A - behaviour_A).exp().clamp(max=self.cap)
