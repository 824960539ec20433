"""No growth: every iteration is as hard as the first."""

from collections.abc import Mapping, Sequence

from clawloop.types import DiagnosisReport


class NoGrowth:
    """Keeps every capability at `start` (paper, Figure 3: no schedule).

    >>> NoGrowth(start=1).mix(["audit"], DiagnosisReport.empty())
    {'audit': {1: 1.0}}
    """

    def __init__(self, start: int = 0) -> None:
        self._start = start

    def mix(self, capabilities: Sequence[str], report: DiagnosisReport) -> Mapping[str, Mapping[int, float]]:
        """One level for all."""
        return {name: {self._start: 1.0} for name in capabilities}
