"""Recurring failures (paper, 4.3; Algorithm 1, line 25)."""

from collections import defaultdict
from collections.abc import Iterable

from clawloop.types import FailureSummary, Pattern, RootCause


def aggregate(summaries: Iterable[FailureSummary]) -> tuple[Pattern, ...]:
    """Patterns of one capability and one root cause, most frequent first, ties by capability, then by cause.

    Each carries the first summary's failure point as its example, and its commonest missing capability (the first of
    equals).
    """
    clusters: dict[tuple[str, RootCause], list[FailureSummary]] = defaultdict(list)
    for summary in summaries:
        clusters[summary.capability, summary.root_cause].append(summary)
    ordered = sorted(clusters.items(), key=lambda item: (-len(item[1]), item[0]))
    return tuple(
        Pattern(
            capability, cause, len(found), _commonest([s.missing_capability for s in found]), found[0].failure_point
        )
        for (capability, cause), found in ordered
    )


def _commonest(sentences: list[str]) -> str:
    return max(dict.fromkeys(sentences), key=sentences.count)
