"""All harnesses at once: the baseline of HarnessBandit (5.1, Comparisons)."""

from collections.abc import Mapping, Sequence
from typing import Any

from clawloop.types import StepSignal


class Mixed:
    """Batches of a global shuffle over the rows task x harness, so that a batch has groups of several harnesses.

    Args:
        harnesses: their names.
    """

    sketch = None

    def __init__(self, harnesses: Sequence[str]) -> None:
        self._harnesses = tuple(harnesses)

    def choose(self, k: int, step: int) -> tuple[str, ...]:
        """All of them."""
        return self._harnesses

    def observe(self, signal: StepSignal) -> Mapping[str, float]:
        """There is nothing to learn."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """There is nothing to keep."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """There is nothing to put back."""
