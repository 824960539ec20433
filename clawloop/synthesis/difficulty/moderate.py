"""Moderate growth: at most one level per iteration, where the agent is proficient."""

from collections.abc import Mapping, Sequence

from clawloop.types import DiagnosisReport, Proficiency


class Moderate:
    """Raises a capability by one level where it is mastered (paper, 4.1) and lowers it by one where it is out of reach.

    What counts as proficient is not stated in the paper: here a pass rate of at least `raise_at`. Lowering is ours; it
    does by rule what the paper sees happen after an overshoot (D.1): at a rate of at most `lower_at` almost no task
    lands in the admission band. A capability that the report does not have begins at `start`; with fewer than
    `min_trials` trials it stays where it is.

    >>> report = DiagnosisReport(1, proficiency={"audit": Proficiency(1, 9, 10), "merge": Proficiency(2, 0, 10)})
    >>> Moderate().mix(["audit", "merge", "rates"], report)
    {'audit': {2: 1.0}, 'merge': {1: 1.0}, 'rates': {0: 1.0}}
    """

    def __init__(
        self, start: int = 0, top: int = 4, raise_at: float = 0.7, lower_at: float = 0.05, min_trials: int = 8
    ) -> None:
        if not 0 <= start <= top or not 0 <= lower_at < raise_at <= 1:
            raise ValueError("difficulty moderate needs 0 <= start <= top and 0 <= lower_at < raise_at <= 1.")
        self._start, self._top = start, top
        self._raise_at, self._lower_at, self._min_trials = raise_at, lower_at, min_trials

    def mix(self, capabilities: Sequence[str], report: DiagnosisReport) -> Mapping[str, Mapping[int, float]]:
        """One level for each capability, between 0 and `top`."""
        return {name: {self._next(report.proficiency.get(name)): 1.0} for name in capabilities}

    def _next(self, seen: Proficiency | None) -> int:
        if seen is None:
            return self._start
        step = 0
        if seen.trials >= self._min_trials:
            step = (seen.rate >= self._raise_at) - (seen.rate <= self._lower_at)
        return min(max(seen.level + step, 0), self._top)
