"""Rollouts that sequential admission saves at the paper's pass-rate mix, with the same pool admitted.

The paper gives, per iteration (Table 6): tasks that passed the agent-free checks, tasks admitted by [1, 5] of 8, and
successful trajectories. Pass rates of tasks are drawn from the Beta distribution whose share in the band and whose mean
passes of an admitted task are those of the iteration (successes are taken to be counted over the whole pool). Both ways
then run the program's own `Collect` over the same outcomes, with a trial that answers at once.

Goal: the admitted pools are identical and no more trials are run. The saving is what is found.
"""

import json
from collections.abc import Sequence

import numpy as np
from scipy.optimize import least_squares
from scipy.stats import betabinom

from clawloop.rollout.collect import Collect
from clawloop.types import Card, Contract, Outcome, Rollout, RolloutGroup, Task, TaskPool, Verifier, Workspace
from clawloop.validation.band import Band, Sequential

LOW, HIGH, N, WORKERS = 1, 5, 8, 32
TABLE_6 = {1: (897, 672, 1978), 2: (910, 469, 892), 3: (913, 567, 1694)}


class Memory:
    """A journal in memory."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, int], Rollout] = {}

    def find(self, at: str, task_id: str, index: int) -> Rollout | None:
        """A finished trial."""
        return self.kept.get((task_id, index))

    def add(self, at: str, rollout: Rollout) -> None:
        """Keep a trial."""
        self.kept[rollout.task_id, rollout.index] = rollout


def fit(tasks: int, admitted: int, successes: int) -> tuple[float, float]:
    """The Beta distribution of an iteration."""
    y = np.arange(LOW, HIGH + 1)

    def miss(log_ab: Sequence[float]) -> list[float]:
        share = betabinom.pmf(y, N, *np.exp(log_ab))
        return [share.sum() - admitted / tasks, 0.2 * ((share @ y) / share.sum() - successes / admitted)]

    starts = [(a, b) for a in (-1.5, 0.0, 1.0) for b in (-1.5, 0.0, 1.0, 2.0)]
    best = min((least_squares(miss, start, bounds=(-5, 5)) for start in starts), key=lambda found: found.cost)
    a, b = np.exp(best.x)
    return float(a), float(b)


def collect(outcomes: np.ndarray, band: Band) -> tuple[TaskPool, int]:
    """The pool and how many trials were run."""
    card, contract = Card("capability", "audit", "analysis", "hives", 0, "text", 1, "l"), Contract((), ())
    tasks = tuple(Task(f"t{i}", "", Workspace({}), Verifier("", ""), contract, card) for i in range(len(outcomes)))

    def episode(policy: object, task: Task, index: int, seed: int) -> Rollout:
        reward = float(outcomes[int(task.id[1:]), index])
        return Rollout(task.id, index, Outcome.SCORED, reward, None, None)

    journal = Memory()
    groups: tuple[RolloutGroup, ...] = Collect(episode, journal, WORKERS, 0)(
        None, tasks, N, "k1/admission", band.wanted
    )  # type: ignore[arg-type]
    return band(groups, 1), len(journal.kept)


def main() -> None:
    """Print a line an iteration, and the JSON line."""
    figures, same, saved, whole = {}, True, 0, 0
    for k, (tasks, admitted, successes) in TABLE_6.items():
        a, b = fit(tasks, admitted, successes)
        rng = np.random.default_rng(k)
        outcomes = rng.random((tasks, N)) < rng.beta(a, b, (tasks, 1))
        full, trials = collect(outcomes, Band(LOW, HIGH, N))
        sequential, fewer = collect(outcomes, Sequential(LOW, HIGH, N))
        same &= full == sequential
        saved, whole = saved + trials - fewer, whole + trials
        easy = int((outcomes.sum(axis=1) > HIGH).sum())
        figures[f"k={k}"] = {
            "beta": [round(a, 3), round(b, 3)],
            "in_band": round(len(full.groups) / tasks, 3),
            "too_easy": round(easy / tasks, 3),
            "rollouts_full": trials,
            "rollouts_sequential": fewer,
            "saved": round(1 - fewer / trials, 4),
        }
        print(f"k={k}: Beta({a:.2f}, {b:.2f}), {figures[f'k={k}']}")
    figures["all"] = {"saved": round(saved / whole, 4), "same_pool": bool(same)}
    goal = "the same pools with no more rollouts"
    print(json.dumps({"bench": "admission", "figures": figures, "goal": goal, "met": bool(same and saved >= 0)}))


if __name__ == "__main__":
    main()
