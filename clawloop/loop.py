"""Algorithm 1 of the paper: the loop in which an agent writes its practice, trains on it and studies its failures."""

from clawloop.protocols import Phases, Policy
from clawloop.types import DiagnosisReport


def run(policy: Policy, do: Phases, *, iterations: int, rollouts: int) -> Policy:
    """Improve theta_0 for K `iterations` with N `rollouts` a task, and return theta_K.

    The numbers on the right are the lines of Algorithm 1. `evaluate` is not in the listing: it tries the agent on
    a probe that nothing trains on and that no later line reads.
    """
    report = DiagnosisReport.empty()  #                                           2   F_0
    do.evaluate(policy, 0)
    for k in range(1, iterations + 1):  #                                         3
        candidates = do.synthesize(policy, report, k)  #                          5   P_k^raw
        sound = do.screen(candidates, k)  #                                       6   P_k^af
        groups = do.roll_out(policy, sound.tasks, rollouts, f"k{k}/admission")  # 7   xi_j, r_j
        pool = do.admit(groups, k)  #                                            13   N_l <= sum r <= N_h
        practice, held_out = do.split(pool, k)  #                                14   T_k, E_k
        for stage in do.train:  #                                                17   SFT, then GRPO
            policy = stage(policy, practice, k)  #                               19   theta_k
        trials = do.roll_out(policy, held_out.tasks, 1, f"k{k}/held_out")  #     22   Xi_k
        report = do.diagnose(policy, trials, groups, report, k)  #               23   F_k
        do.evaluate(policy, k)
    return policy  #                                                             27
