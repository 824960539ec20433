"""The group `reference`: the policy that the KL is measured to. The paper does not say which."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import torch
from torch import Tensor

from clawloop.policy.network import put_weights
from clawloop.training import ranks

Weights: TypeAlias = Mapping[str, Tensor]
"""Parameters by name, of each what this rank holds."""


class Reference(Protocol):
    """Where the weights of the reference of iteration k lie; None for those that the model has as the stage begins."""

    def weights(self, k: int) -> Path | None:
        """The folder."""
        ...


class Stage:
    """Theta', the policy that enters the stage, from which line 19 of Algorithm 1 starts."""

    def weights(self, k: int) -> None:
        """Those that are there."""
        return


class Iteration:
    """Theta_(k-1), the policy that enters the iteration, before SFT; it sampled the rollouts of admission.

    Args:
        theta: the folder of theta_k's weights, by k.
    """

    def __init__(self, theta: Callable[[int], Path]) -> None:
        self._theta = theta

    def weights(self, k: int) -> Path:
        """The folder of theta_(k-1).

        Raises:
            ValueError: it is not there.
        """
        folder = self._theta(k - 1)
        if not folder.is_dir():
            raise ValueError(f"reference=iteration: {folder} is not there; put it back, or choose reference=stage.")
        return folder


def copied(model: Any) -> Weights:
    """The weights of a model as they are now, in main memory."""
    return {name: ranks.part(own.detach()).to("cpu", copy=True) for name, own in model.named_parameters()}


@contextmanager
def standing_in(model: Any, weights: Path | Weights | None) -> Iterator[None]:
    """The model with other weights, of a folder or a copy, and afterwards with its own, which wait in main memory."""
    if weights is None:
        yield
        return
    own = copied(model)
    try:
        if isinstance(weights, Path):
            put_weights(model, weights)
        else:
            _put(model, weights)
        yield
    finally:
        _put(model, own)


@torch.no_grad()
def _put(model: Any, weights: Weights) -> None:
    for name, parameter in model.named_parameters():
        ranks.part(parameter).copy_(weights[name])
