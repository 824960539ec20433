"""The probe: fixed tasks that nothing trains on, tried with theta_0 ... theta_K."""

from collections.abc import Callable, Iterable

from clawloop.evaluation.statistics import coverage, difference, pass_rate
from clawloop.protocols import Policy, Tracker
from clawloop.types import RolloutGroup, Task


class Probe:
    """Tries a policy on the probe and logs how it did. No line of the loop reads what it finds.

    Args:
        tasks: the probe, from domains and seeds that synthesis never draws.
        trials: trials of each task.
        roll_out: (policy, tasks, trials, at) -> groups. It remembers finished trials, so that asking twice for one
            `at` plays nothing.
        tracker: where the numbers go: axis `probe`, step k.
    """

    def __init__(
        self,
        tasks: tuple[Task, ...],
        trials: int,
        roll_out: Callable[[Policy, tuple[Task, ...], int, str], tuple[RolloutGroup, ...]],
        tracker: Tracker | None = None,
    ) -> None:
        self._tasks, self._trials, self._roll_out, self._tracker = tasks, trials, roll_out, tracker

    def __call__(self, policy: Policy, k: int) -> None:
        """Tries theta_k, and compares it with theta_0 on the same tasks."""
        groups = self.results(policy, k)
        values = measure(groups)
        if k > 0 and groups:
            values |= _gain(groups, self.results(policy, 0))
        if self._tracker is not None:
            self._tracker.log("probe", k, values)

    def results(self, policy: Policy, k: int) -> tuple[RolloutGroup, ...]:
        """The trials of theta_k. Those of an earlier k come from the journal, and then `policy` is not asked."""
        return self._roll_out(policy, self._tasks, self._trials, f"probe/{k}")


def measure(groups: tuple[RolloutGroup, ...]) -> dict[str, float]:
    """Pass rate with its 95% interval, and the rate per level and per capability, each with its coverage.

    A rate is left out where no trial has a reward; its coverage of 0 stays.
    """
    values: dict[str, float] = {"coverage": coverage(groups)}
    if any(group.rewards for group in groups):
        whole = pass_rate(groups)
        values |= {"pass_rate": whole.mean, "low": whole.low, "high": whole.high}
        values |= {"trials": whole.trials, "tasks": whole.tasks}
    parts = _by((f"level_{g.task.card.level}", g) for g in groups)
    parts |= _by((f"capability_{g.task.card.capability}", g) for g in groups)
    for name, part in sorted(parts.items()):
        values[f"{name}/coverage"] = coverage(part)
        if any(group.rewards for group in part):
            values[f"{name}/pass_rate"] = pass_rate(part).mean
    return values


def _gain(groups: tuple[RolloutGroup, ...], first: tuple[RolloutGroup, ...]) -> dict[str, float]:
    measured = {group.task.id for group in first if group.rewards}
    if not any(group.rewards and group.task.id in measured for group in groups):
        return {}
    gain = difference(groups, first)
    return {
        "difference": gain.mean,
        "difference_low": gain.low,
        "difference_high": gain.high,
        "difference_coverage": gain.coverage,
    }


def _by(named: Iterable[tuple[str, RolloutGroup]]) -> dict[str, tuple[RolloutGroup, ...]]:
    parts: dict[str, tuple[RolloutGroup, ...]] = {}
    for name, group in named:
        parts[name] = (*parts.get(name, ()), group)
    return parts
