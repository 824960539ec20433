"""The seams of running a stage: what it trains, and where."""

from collections.abc import Mapping
from typing import Any, Protocol

from clawloop.protocols import Stage


class Adapter(Protocol):
    """What of a network is trained."""

    def attach(self, model: Any, place: str) -> None:
        """Make a network ready for the stage called `place`."""

    def over(self, stage: Stage) -> Stage:
        """The stage with that before it, and what it takes after it."""


class Launcher(Protocol):
    """Where stages are run."""

    def over(self, stage: Stage, adapter: Adapter, spec: Mapping[str, Any]) -> Stage:
        """The stage with its adapter; `spec` is what it was built from: stage, objective, adapter, setup, seed."""
