"""No choice: each task stays in the harness that it has."""

from collections.abc import Mapping
from typing import Any

from clawloop.types import StepSignal


class Fixed:
    """Each task is rolled out in the harness that it was admitted in."""

    sketch = None

    def choose(self, k: int, step: int) -> tuple[str, ...]:
        """None, so that every task has its own."""
        return ()

    def observe(self, signal: StepSignal) -> Mapping[str, float]:
        """There is nothing to learn."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """There is nothing to keep."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """There is nothing to put back."""
