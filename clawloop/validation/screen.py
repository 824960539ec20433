"""Agent-free validation (paper, 4.2; Algorithm 1, line 6)."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures.thread import ThreadPoolExecutor

from clawloop.protocols import Check, Comparison
from clawloop.types import Candidate, Finding, Screening, Task


class Screen:
    """Applies the checks to each candidate, in their order, up to the first that fails.

    Checks that compare come last, one candidate at a time in the candidates' order, so that timing decides nothing:
    each candidate that passed is held against those that passed everything before it. `alone` are the others, by name.

    Args:
        checks: by name; the cheapest first saves most.
        earlier: the sound candidates of what came before iteration k, in order.
        workers: candidates at once.
        progress: told (phase, candidates done, candidates in all).
    """

    def __init__(
        self,
        checks: Mapping[str, Check | Comparison],
        earlier: Callable[[int], Sequence[Candidate]] = lambda k: (),
        workers: int = 2,
        progress: Callable[[str, int, int], None] = lambda phase, done, total: None,
    ) -> None:
        if workers < 1:
            raise ValueError(f"screening needs workers of at least 1, not {workers}.")
        self._comparisons = tuple(check for check in checks.values() if isinstance(check, Comparison))
        self.alone = {name: check for name, check in checks.items() if not isinstance(check, Comparison)}
        self._earlier, self._workers, self._progress = earlier, workers, progress

    def __call__(self, candidates: tuple[Candidate, ...], k: int) -> Screening:
        """P_k^af in the candidates' order, and all findings by id.

        Raises:
            InfrastructureError: a box broke.
        """
        findings: dict[str, tuple[Finding, ...]] = {}
        tasks: list[Task] = []
        before = list(self._earlier(k)) if self._comparisons else []
        with ThreadPoolExecutor(self._workers, thread_name_prefix="check") as pool:
            for candidate, found in zip(candidates, pool.map(self._examine, candidates), strict=True):
                if candidate.task is not None and all(finding.passed for finding in found):
                    found += self._compare(candidate, before)
                    if all(finding.passed for finding in found):
                        tasks.append(candidate.task)
                        before.append(candidate)
                findings[candidate.id] = found
                self._progress(f"k{k}/screening", len(findings), len(candidates))
        return Screening(tuple(tasks), findings)

    def _examine(self, candidate: Candidate) -> tuple[Finding, ...]:
        found = list(candidate.findings)
        if candidate.task is None:
            return tuple(found)
        for check in self.alone.values():
            found.append(check(candidate))
            if not found[-1].passed:
                break
        return tuple(found)

    def _compare(self, candidate: Candidate, before: Sequence[Candidate]) -> tuple[Finding, ...]:
        found: list[Finding] = []
        for comparison in self._comparisons:
            found.append(comparison.compare(candidate, before))
            if not found[-1].passed:
                break
        return tuple(found)
