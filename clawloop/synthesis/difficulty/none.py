"""No growth: every iteration is as hard as the first."""

from collections.abc import Mapping, Sequence

from clawloop.types import DiagnosisReport


class NoGrowth:
    """Keeps every capability at `start` (paper, Figure 3: no schedule).

    >>> NoGrowth(start=1).levels(["audit"], DiagnosisReport.empty())
    {'audit': 1}
    """

    def __init__(self, start: int = 0) -> None:
        self._start = start

    def levels(self, capabilities: Sequence[str], report: DiagnosisReport) -> Mapping[str, int]:
        """The same level for all."""
        return dict.fromkeys(capabilities, self._start)
