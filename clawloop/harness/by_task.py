"""Several harnesses in one run: each task has one of them, in which all of its trials are played."""

import hashlib
from collections.abc import Mapping

from clawloop.protocols import Agent, Harness, Sandbox
from clawloop.types import Assignment, Trajectory


class ByTask:
    """Gives each task to one of the harnesses, by its id alone.

    So a group of trials is of one harness, as the group of Eq. 2 must be; what a run costs does not grow with the
    number of harnesses; and a task meets the same harness at admission, after training and in every run. A harness that
    is added takes its share of the tasks, and the others keep the rest.

    Args:
        harnesses: by the name of their choice.

    Raises:
        ValueError: there is none, or two would have one name in the record.
    """

    name = "by_task"

    def __init__(self, harnesses: Mapping[str, Harness]) -> None:
        if not harnesses:
            raise ValueError("harness: there is none; choose one or more, such as 'harness=[shell]'.")
        kept: dict[str, str] = {}
        for choice, harness in harnesses.items():
            if (other := kept.setdefault(harness.name, choice)) != choice:
                raise ValueError(f"harness: {other} and {choice} are both {harness.name} in the record; choose one.")
        self._harnesses = harnesses

    @property
    def names(self) -> tuple[str, ...]:
        """Those of all harnesses, in the order of their choice."""
        return tuple(harness.name for harness in self._harnesses.values())

    def of(self, task_id: str) -> Harness:
        """The harness of a task."""
        choice = max(self._harnesses, key=lambda name: hashlib.sha256(f"{name}/{task_id}".encode()).digest())
        return self._harnesses[choice]

    def run(self, assignment: Assignment, policy: Agent, sandbox: Sandbox, seed: int) -> Trajectory:
        """Play one episode in the task's harness."""
        return self.of(assignment.task_id).run(assignment, policy, sandbox, seed)
