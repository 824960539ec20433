"""Stages run in this process, on one device."""

from collections.abc import Mapping
from typing import Any

from clawloop.protocols import Stage
from clawloop.training.launch.launcher import Adapter


class Inline:
    """Stages as they are, with the adapter that is chosen."""

    def over(self, stage: Stage, adapter: Adapter, spec: Mapping[str, Any]) -> Stage:
        """The stage with its adapter."""
        return adapter.over(stage)
