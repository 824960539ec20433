"""The admission rollouts, replayed (paper, A.2)."""

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from clawloop.protocols import Policy, Scheduler
from clawloop.training.fit import Epochs
from clawloop.training.scheduler.fixed import Fixed
from clawloop.training.sequences import Batches, Wanted
from clawloop.types import TaskPool


class Replay:
    """Batches of the rollouts that admitted the tasks, group by group, in an order of its own each epoch.

    Args:
        scheduler: must be `Fixed`, for what was played was played.

    Raises:
        ValueError: the scheduler chooses harnesses, and there is nothing to choose from.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        if not isinstance(scheduler, Fixed):
            name = type(scheduler).__name__
            raise ValueError(
                f"scheduler: {name} chooses the harness of new rollouts, and source=replay makes none; "
                "choose source=fresh, or scheduler=fixed."
            )

    def open(self, policy: Policy, practice: TaskPool, k: int, wanted: Wanted) -> tuple[Batches, dict[str, object]]:
        """All there is, weighed once."""
        drawn = wanted.draw(practice)
        detail = {"sequences": len(drawn.sequences), "groups": drawn.groups, "dropped": drawn.unanimous}
        sequences = wanted.prepare(drawn.sequences, None)
        batches = Epochs(sequences, wanted.batch_size, wanted.epochs, wanted.seed, attrgetter("group"))
        return batches, {**detail, "too_long": list(drawn.too_long), "empty": drawn.empty}

    def before_step(self, model: Any) -> Mapping[str, float]:
        """Nothing is learnt from a step."""
        return {}

    def state(self) -> bytes:
        """Nothing is carried over."""
        return b""

    def restore(self, state: bytes) -> None:
        """Nothing is carried over."""
