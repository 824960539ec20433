"""Aggressive growth: two levels at once, on little evidence, and never back."""

from collections.abc import Mapping, Sequence

from clawloop.types import DiagnosisReport, Proficiency


class Aggressive:
    """Raises a capability by two levels where its pass rate is at least `raise_at` (paper, Figure 3).

    The paper does not state the schedule's numbers; these make it overshoot, which is what it is there to show. A
    capability that the report does not have begins at `start`.

    >>> report = DiagnosisReport(1, proficiency={"audit": Proficiency(0, 4, 10), "merge": Proficiency(3, 9, 10)})
    >>> Aggressive().mix(["audit", "merge"], report)
    {'audit': {2: 1.0}, 'merge': {4: 1.0}}
    """

    def __init__(self, start: int = 0, top: int = 4, raise_at: float = 0.3, min_trials: int = 1) -> None:
        if not 0 <= start <= top or not 0 < raise_at <= 1:
            raise ValueError("difficulty aggressive needs 0 <= start <= top and 0 < raise_at <= 1.")
        self._start, self._top, self._raise_at, self._min_trials = start, top, raise_at, min_trials

    def mix(self, capabilities: Sequence[str], report: DiagnosisReport) -> Mapping[str, Mapping[int, float]]:
        """One level for each capability, at most `top`."""
        return {name: {self._next(report.proficiency.get(name)): 1.0} for name in capabilities}

    def _next(self, seen: Proficiency | None) -> int:
        if seen is None:
            return self._start
        proficient = seen.trials >= self._min_trials and seen.rate >= self._raise_at
        return min(seen.level + 2 * proficient, self._top)
