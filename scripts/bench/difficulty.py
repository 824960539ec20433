"""Share of candidates that land in the admission band, for each difficulty schedule, over simulated agents.

The simulation, whose assumptions decide the figures:

- 8 capabilities. logit P(pass) of a task is ability(capability, k) - hardness(capability, level) + a task's own offset,
  normal with the standard deviation of `TASKS`. 8 rollouts a task are independent given that.
- Hardness begins at 0 and rises from level to level by 0.7 to 1.6 logits, drawn per capability and level; an agent's
  ability at the start is normal around the curve's first value with deviation 0.8 per capability.
- Ability grows by a curve that does not depend on what is practised: linear, early (fast, then flat), late (flat, then
  fast), jump (one leap at k = 4), and forgetting (up, then a step down). Each capability's gain is the curve's times 0.6
  to 1.4.
- 128 candidates an iteration, K = 6, 20 seeds. Each schedule sees what the program's diagnosis would show it: the
  proficiency of the last iteration, the passes of every task so far, and one trial after training of a quarter of the
  admitted tasks, as the loop gives to E_k.

`ceiling` is the share that the best level of each capability would give if the abilities were known: no schedule that
chooses one level for each capability can do better. Goal: from k = 2 on tracking keeps at least 75% and beats moderate
by 10 points.
"""

import json
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy as np
from scipy.special import expit
from scipy.stats import t

from clawloop.protocols import Difficulty
from clawloop.synthesis.difficulty.aggressive import Aggressive
from clawloop.synthesis.difficulty.moderate import Moderate
from clawloop.synthesis.difficulty.none import NoGrowth
from clawloop.synthesis.difficulty.tracking.posterior import in_band
from clawloop.synthesis.difficulty.tracking.tracking import Tracking
from clawloop.types import DiagnosisReport, Evidence, Proficiency

LOW, HIGH, N, K, SEEDS, CANDIDATES, TOP, TASKS, HELD_OUT = 1, 5, 8, 6, 20, 128, 4, 0.7, 0.25
NAMES = tuple(f"capability-{index}" for index in range(8))
CURVES: Mapping[str, Sequence[float]] = {
    "linear": (0.0, 0.6, 1.2, 1.8, 2.4, 3.0),
    "early": (0.0, 1.5, 2.2, 2.6, 2.8, 2.9),
    "late": (0.0, 0.1, 0.3, 0.8, 1.8, 3.0),
    "jump": (0.0, 0.2, 0.4, 2.4, 2.6, 2.8),
    "forgetting": (0.0, 0.8, 1.6, 0.8, 1.6, 2.4),
}
SCHEDULES: Mapping[str, Difficulty] = {
    "none": NoGrowth(),
    "moderate": Moderate(),
    "aggressive": Aggressive(),
    "tracking": Tracking(LOW, HIGH, N),
}


class Agent:
    """One simulated agent."""

    def __init__(self, curve: str, seed: int) -> None:
        rng = random.Random(f"{curve}/{seed}")
        self.ability = {}
        self.hardness = {}
        for name in NAMES:
            start, gain = rng.gauss(0.0, 0.8), rng.uniform(0.6, 1.4)
            self.ability[name] = [start + gain * value for value in CURVES[curve]]
            steps = [0.0] + [rng.uniform(0.7, 1.6) for _ in range(TOP)]
            self.hardness[name] = np.cumsum(steps)

    def logit(self, name: str, level: int, k: int) -> float:
        """Ability less hardness."""
        return float(self.ability[name][k - 1] - self.hardness[name][level])

    def ceiling(self, k: int) -> float:
        """The share in the band where each capability is at its best level."""
        best = [
            max(float(in_band(np.array(self.logit(name, level, k)), TASKS, LOW, HIGH, N)) for level in range(TOP + 1))
            for name in NAMES
        ]
        return fmean(best)


def play(curve: str, seed: int, schedule: Difficulty) -> list[float]:
    """The share in the band at each iteration."""
    agent, rng = Agent(curve, seed), np.random.default_rng(seed)
    report, shares = DiagnosisReport.empty(), []
    for k in range(1, K + 1):
        mix = schedule.mix(NAMES, report)
        cells: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
        held_out: dict[tuple[str, int], list[tuple[int, int, int, int]]] = defaultdict(list)
        for name in NAMES:
            levels = sorted(mix[name])
            shares_L = np.array([mix[name][level] for level in levels])
            for level in rng.choice(levels, CANDIDATES // len(NAMES), p=shares_L / shares_L.sum()):
                offset = TASKS * rng.standard_normal()
                passes = int(rng.binomial(N, expit(agent.logit(name, int(level), k) + offset)))
                cells[name, int(level)].append((passes, N))
                if LOW <= passes <= HIGH and k < K and rng.random() < HELD_OUT:
                    after = int(rng.binomial(1, expit(agent.logit(name, int(level), k + 1) + offset)))
                    held_out[name, int(level)].append((passes, N, after, 1))
        shares.append(fmean(LOW <= y <= HIGH for tasks in cells.values() for y, _ in tasks))
        proficiency = {}
        for name in NAMES:
            level = max(tried for own, tried in cells if own == name)
            tasks = cells[name, level]
            proficiency[name] = Proficiency(level, sum(y for y, _ in tasks), N * len(tasks))
        evidence = tuple(Evidence(k, *cell, tuple(cells[cell]), tuple(held_out[cell])) for cell in sorted(cells))
        report = DiagnosisReport(k, proficiency=proficiency, evidence=(*report.evidence, *evidence))
    return shares


def interval(values: Sequence[float]) -> dict[str, float]:
    """Mean and 95% t interval over agents."""
    half = float(t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / len(values) ** 0.5)
    return {
        "mean": round(fmean(values), 4),
        "low": round(fmean(values) - half, 4),
        "high": round(fmean(values) + half, 4),
    }


def main() -> None:
    """Print the table and the JSON line."""
    agents = [(curve, seed) for curve in CURVES for seed in range(SEEDS)]
    shares = {name: [play(*agent, schedule) for agent in agents] for name, schedule in SCHEDULES.items()}
    shares["ceiling"] = [[Agent(*agent).ceiling(k) for k in range(1, K + 1)] for agent in agents]
    print(f"{'':12}" + "".join(f"   k={k}" for k in range(1, K + 1)) + "   k>=2  " + "  ".join(CURVES))
    figures: dict[str, object] = {}
    later = {name: [fmean(run[1:]) for run in runs] for name, runs in shares.items()}
    for name, runs in shares.items():
        by_k = [fmean(run[k] for run in runs) for k in range(K)]
        by_curve = [
            fmean(v for v, (own, _) in zip(later[name], agents, strict=True) if own == curve) for curve in CURVES
        ]
        row = "".join(f" {100 * value:5.1f}" for value in by_k)
        print(f"{name:12}{row}  {100 * fmean(later[name]):5.1f}  " + "  ".join(f"{100 * v:5.1f}" for v in by_curve))
        figures[name] = {**interval(later[name]), "by_k": [round(v, 4) for v in by_k]}
    gain = interval([a - b for a, b in zip(later["tracking"], later["moderate"], strict=True)])
    figures["tracking - moderate"] = gain
    tracking = figures["tracking"]
    assert isinstance(tracking, dict)
    met = min(tracking["by_k"][1:]) >= 0.75 and gain["mean"] >= 0.10
    print(
        json.dumps(
            {
                "bench": "difficulty",
                "figures": figures,
                "goal": "tracking >= 0.75 at every k >= 2, and >= moderate + 0.10",
                "met": met,
            }
        )
    )


if __name__ == "__main__":
    main()
