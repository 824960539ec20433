"""From the trials on E_k to the report F_k (Algorithm 1, lines 23 to 25)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from clawloop.diagnosis.aggregate import aggregate
from clawloop.protocols import Policy, Summariser
from clawloop.types import DiagnosisReport, Proficiency, RolloutGroup


class Diagnose:
    """Summarises the failures on the held-out tasks and measures how proficient the agent is per capability.

    Only judged trials count: where the sandbox, the engine or the verifier broke, nothing is said of the agent.
    """

    def __init__(self, summariser: Summariser) -> None:
        self._summariser = summariser

    def __call__(
        self, policy: Policy, trials: tuple[RolloutGroup, ...], groups: tuple[RolloutGroup, ...], k: int
    ) -> DiagnosisReport:
        """F_k.

        Args:
            policy: theta_k, which a summariser may ask.
            trials: Xi_k, the trials of theta_k on E_k; their failures are summarised.
            groups: the admission trials of iteration k, of theta_{k-1}; they count for proficiency alone.
            k: the iteration.
        """
        summaries = tuple(
            self._summariser(policy, group.task, rollout)
            for group in trials
            for rollout in group.rollouts
            if rollout.reward == 0.0
        )
        return DiagnosisReport(k, summaries, aggregate(summaries), _proficiency((*groups, *trials)))


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
