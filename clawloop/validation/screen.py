"""Agent-free validation (paper, 4.2; Algorithm 1, line 6)."""

from collections.abc import Callable, Mapping
from concurrent.futures.thread import ThreadPoolExecutor

from clawloop.protocols import Check
from clawloop.types import Candidate, Finding, Screening, Task


class Screen:
    """Applies the checks to each candidate, in their order, up to the first that fails.

    Args:
        checks: by name; the cheapest first saves most.
        workers: candidates at once.
        progress: told (phase, candidates done, candidates in all).
    """

    def __init__(
        self,
        checks: Mapping[str, Check],
        workers: int = 2,
        progress: Callable[[str, int, int], None] = lambda phase, done, total: None,
    ) -> None:
        if workers < 1:
            raise ValueError(f"screening needs workers of at least 1, not {workers}.")
        self._checks, self._workers, self._progress = tuple(checks.values()), workers, progress

    def __call__(self, candidates: tuple[Candidate, ...], k: int) -> Screening:
        """P_k^af in the candidates' order, and all findings by id.

        Raises:
            InfrastructureError: a box broke.
        """
        findings: dict[str, tuple[Finding, ...]] = {}
        tasks: list[Task] = []
        with ThreadPoolExecutor(self._workers, thread_name_prefix="check") as pool:
            for candidate, found in zip(candidates, pool.map(self._examine, candidates), strict=True):
                findings[candidate.id] = found
                if candidate.task is not None and all(finding.passed for finding in found):
                    tasks.append(candidate.task)
                self._progress(f"k{k}/screening", len(findings), len(candidates))
        return Screening(tuple(tasks), findings)

    def _examine(self, candidate: Candidate) -> tuple[Finding, ...]:
        found = list(candidate.findings)
        if candidate.task is None:
            return tuple(found)
        for check in self._checks:
            found.append(check(candidate))
            if not found[-1].passed:
                break
        return tuple(found)
