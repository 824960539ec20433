"""One harness after the other: what HarnessBandit does while it warms up (4.5)."""

from collections.abc import Mapping, Sequence
from typing import Any

from clawloop.types import StepSignal


class RoundRobin:
    """The harnesses in turn, one a step; it goes on where the iteration before ended.

    Args:
        harnesses: their names, in the order of their turns.
    """

    sketch = None

    def __init__(self, harnesses: Sequence[str]) -> None:
        self._harnesses = tuple(harnesses)
        self._steps = 0

    def choose(self, k: int, step: int) -> tuple[str, ...]:
        """The one whose turn it is."""
        return (self._harnesses[self._steps % len(self._harnesses)],)

    def observe(self, signal: StepSignal) -> Mapping[str, float]:
        """A turn is over."""
        self._steps += 1
        return {}

    def state_dict(self) -> dict[str, Any]:
        """The number of turns so far."""
        return {"steps": self._steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        self._steps = int(state["steps"])
