"""The group `reference`: the policy that the KL is measured to. The paper does not say which."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import torch

from clawloop.policy.network import put_weights


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


@contextmanager
def standing_in(model: Any, weights: Path | None) -> Iterator[None]:
    """The model with the weights of a folder, and afterwards with its own, which wait in main memory meanwhile."""
    if weights is None:
        yield
        return
    own = {name: parameter.detach().to("cpu", copy=True) for name, parameter in model.named_parameters()}
    try:
        put_weights(model, weights)
        yield
    finally:
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(own[name])
