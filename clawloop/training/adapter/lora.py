"""Low-rank adapters (Hu et al. 2021): a stage trains a product of two thin matrices for each weight.

A stage starts with a new adapter and ends with it merged, so each theta is a plain network that any policy can load,
and several stages add up to more than one rank. The adapter of the last stage is kept beside the weights that it gave.
"""

import random
from typing import Any

from clawloop.policy.adapter import attach, merge
from clawloop.policy.network import Network
from clawloop.protocols import Policy, Stage, Stateful
from clawloop.types import TaskPool


class Lora:
    """Stages that train an adapter each.

    Args:
        rank: of the product.
        alpha: it is scaled by alpha / rank.
        targets: names of the linear layers that have one, or all-linear for all but the head.
        seed: the run's seed.

    Raises:
        ValueError: the rank is not positive.
    """

    def __init__(self, rank: int, alpha: float, targets: str | list[str] = "all-linear", seed: int = 0) -> None:
        if rank < 1:
            raise ValueError(f"adapter.rank is {rank}; set 1 or more, or choose adapter=full.")
        self._rank, self._alpha, self._targets, self._seed = rank, alpha, targets, seed

    def attach(self, model: Any, place: str) -> None:
        """Lay a new adapter over a network, for the stage of that name.

        Raises:
            ValueError: peft is not installed, or the targets name no layer.
        """
        seed = random.Random(f"{self._seed}/{place}/adapter").getrandbits(32)
        attach(model, self._rank, self._alpha, self._targets, seed)

    def over(self, stage: Stage) -> Stage:
        """The stage with an adapter."""
        return _Adapted(stage, self)


class _Adapted:
    """A stage that trains an adapter."""

    def __init__(self, stage: Stage, adapter: Lora) -> None:
        self._stage, self._adapter = stage, adapter
        self.name = stage.name

    def __call__(self, policy: Policy, practice: TaskPool, k: int) -> Policy:
        """Theta': the policy with a new adapter trained and merged.

        Raises:
            TypeError: the policy has no network in this process.
        """
        if not isinstance(policy, Network):
            raise TypeError(f"adapter=lora: {type(policy).__name__} has no network to adapt; choose adapter=full.")
        self._adapter.attach(policy.model, f"theta_{k}-{self.name}")
        trained = self._stage(policy, practice, k)
        policy.adapter = merge(policy.model)
        return trained.renamed(trained.version)

    def state(self) -> bytes:
        """What the stage knows."""
        return self._stage.state() if isinstance(self._stage, Stateful) else b""

    def restore(self, state: bytes) -> None:
        """Go on from there."""
        if isinstance(self._stage, Stateful):
            self._stage.restore(state)
