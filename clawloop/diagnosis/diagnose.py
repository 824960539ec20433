"""From the trials on E_k to the report F_k (Algorithm 1, lines 23 to 25)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from clawloop.diagnosis.aggregate import aggregate
from clawloop.protocols import Policy, Summariser
from clawloop.types import DiagnosisReport, Evidence, Proficiency, RolloutGroup


class Diagnose:
    """Summarises the failures on the held-out tasks and measures how proficient the agent is per capability.

    Only judged trials count: where the sandbox, the engine or the verifier broke, nothing is said of the agent.
    """

    def __init__(self, summariser: Summariser) -> None:
        self._summariser = summariser

    def __call__(
        self,
        policy: Policy,
        trials: tuple[RolloutGroup, ...],
        groups: tuple[RolloutGroup, ...],
        report: DiagnosisReport,
        k: int,
    ) -> DiagnosisReport:
        """F_k.

        Args:
            policy: theta_k, which a summariser may ask.
            trials: Xi_k, the trials of theta_k on E_k; their failures are summarised.
            groups: the admission trials of iteration k, of theta_{k-1}; they count for proficiency and evidence.
            report: F_{k-1}, whose evidence is kept.
            k: the iteration.
        """
        summaries = tuple(
            self._summariser(policy, group.task, rollout)
            for group in trials
            for rollout in group.rollouts
            if rollout.reward == 0.0
        )
        evidence = (*report.evidence, *_evidence(trials, groups, k))
        return DiagnosisReport(k, summaries, aggregate(summaries), _proficiency((*groups, *trials)), evidence)


def _evidence(trials: Iterable[RolloutGroup], groups: Iterable[RolloutGroup], k: int) -> tuple[Evidence, ...]:
    """Passes and judged trials of every task, by capability and level."""
    after = {group.task.id: (group.passes, len(group.rewards)) for group in trials if group.rewards}
    cells: dict[tuple[str, int], list[RolloutGroup]] = defaultdict(list)
    for group in groups:
        if group.rewards:
            cells[group.task.card.capability, group.task.card.level].append(group)
    found = []
    for (capability, level), cell in sorted(cells.items()):
        tasks = {group.task.id: (group.passes, len(group.rewards)) for group in cell}
        held_out = tuple((*seen, *after[id]) for id, seen in tasks.items() if id in after)
        found.append(Evidence(k, capability, level, tuple(tasks.values()), held_out))
    return tuple(found)


def _proficiency(groups: Iterable[RolloutGroup]) -> Mapping[str, Proficiency]:
    """Judged trials and passes per capability at the level it practises: the highest that has judged trials.

    A capability without any is left out, and so starts anew.
    """
    rewards: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for group in groups:
        if group.rewards:
            rewards[group.task.card.capability][group.task.card.level].extend(group.rewards)
    found = {}
    for capability, levels in sorted(rewards.items()):
        level = max(levels)
        found[capability] = Proficiency(level, sum(reward == 1.0 for reward in levels[level]), len(levels[level]))
    return found
