"""Where schedulers spend the steps of GRPO, and what the agent is worth then, over simulated harnesses; 20 seeds.

First the paper's own case (HarnessBandit, 5.4): 150 steps over six harnesses whose signals differ as its Figure 2 says in
words. Normalised learnability and transferability are normal around Pi 0.75, 0.49; OpenCode 0.62, 0.60; OpenClaw 0.55,
0.59; Qwen Code 0.53, 0.37; for Codex and Gemini CLI the text has no numbers, and 0.50, 0.45 is ours, as is the deviation
0.2. The paper has one run, so the goal is that its fewest and most visits, 21 and 32, lie within those of the 20 seeds.

Then an agent that learns, on eight harnesses: three useful, one useless, one noisy, one conflicting and two that drift.

- The agent is a vector of 32 skills, from 0. A harness reads it by a unit vector: useful ones share half of their square
  with a common direction, the conflicting one has that part reversed, drifting ones are useful until step 75 and
  conflicting after. P(pass) of a task is sigmoid(3 <reading, skills> - hardness), hardness normal with deviation 1.5 around
  0.5. The useless harness never passes; the noisy one passes by a coin that no skill moves.
- A step is 8 groups of 8 trials, unanimous groups dropped and drawn again, at most 4 times; the gradient is that of
  leave-one-out advantages with noise of a tenth of its size in every skill. The skills move by it in two ways, each a table:
  `plain` by 0.5 times the gradient, a mean over groups, so that a mixture moves as its parts would one after the other;
  `unit` by 0.1 in its direction, as an optimizer that normalises does, so that what cancels in a mixture costs nothing.
- The final mean reward is the mean P(pass) over the useful harnesses and the two that drift as they end; 150 steps.

Goal there: bandit above mixed and above round robin, its paired 95% interval over seeds above 0. The bandit is the program's
own, with its own constants, and its sketch keeps all 32 coordinates.
"""

import json
import random
from collections import Counter
from collections.abc import Sequence
from statistics import fmean

import numpy as np
import torch
from scipy.special import expit
from scipy.stats import t as student

from clawloop.protocols import Scheduler
from clawloop.training.scheduler.bandit import Bandit
from clawloop.training.scheduler.mixed import Mixed
from clawloop.training.scheduler.round_robin import RoundRobin
from clawloop.types import StepSignal

SEEDS, STEPS, SKILLS, GROUPS, G, ROUNDS = 20, 150, 32, 8, 8, 4
FIGURE_2 = {
    "openclaw": (0.55, 0.59), "codex": (0.50, 0.45), "gemini": (0.50, 0.45), "opencode": (0.62, 0.60),
    "qwen": (0.53, 0.37), "pi": (0.75, 0.49),
}  # fmt: skip
KINDS = ("useful", "useful", "useful", "useless", "noisy", "conflicting", "drifting", "drifting")
NAMES = tuple(f"{kind}-{i}" for i, kind in enumerate(KINDS))


def paper(seed: int) -> list[int]:
    """The visits of each harness in the paper's case."""
    bandit, chance = Bandit(tuple(FIGURE_2), seed=seed), random.Random(seed)
    for step in range(1, STEPS + 1):
        (name,) = bandit.choose(1, step)
        learn, transfer = (chance.gauss(mean, 0.2) for mean in FIGURE_2[name])
        bandit.observe(StepSignal((name,), learn, {"others": transfer}))
    return list(bandit.state_dict()["visits"].values())


class Weights(torch.nn.Module):
    """The skills as one block, so that the program's sketch reads their gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.ParameterList([torch.zeros(SKILLS)])])

    @property
    def skills(self) -> torch.nn.Parameter:
        """The vector."""
        return self.layers[0][0]


class World:
    """An agent and the harnesses that it is trained in."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.weights = Weights()
        shared, *own = np.linalg.qr(self.rng.standard_normal((SKILLS, SKILLS)))[0][: len(KINDS) + 1]
        self.toward = {name: (shared + one) / 2**0.5 for name, one in zip(NAMES, own, strict=True)}
        self.against = {name: (one - shared) / 2**0.5 for name, one in zip(NAMES, own, strict=True)}

    def reading(self, name: str, step: int) -> np.ndarray:
        """What a harness reads of the skills."""
        kind = name.partition("-")[0]
        against = kind == "conflicting" or (kind == "drifting" and step > STEPS // 2)
        return (self.against if against else self.toward)[name]

    def chance(self, name: str, step: int, hardness: np.ndarray) -> np.ndarray:
        """P(pass) of tasks."""
        kind = name.partition("-")[0]
        if kind in ("useless", "noisy"):
            return np.full(len(hardness), 0.0 if kind == "useless" else 0.5)
        return expit(3.0 * self.reading(name, step) @ self.weights.skills.detach().numpy() - hardness)

    def step(self, names: Sequence[str], step: int) -> tuple[float, bool]:
        """Roll out, and put the gradient in place: the learnability, and whether there is a gradient."""
        gradient, sizes = np.zeros(SKILLS), []
        for _ in range(ROUNDS * GROUPS):
            name = names[int(self.rng.integers(len(names)))]
            p = float(self.chance(name, step, self.rng.normal(0.5, 1.5, 1))[0])
            rewards = (self.rng.random(G) < p).astype(float)
            if rewards.min() == rewards.max():
                continue
            advantages = rewards - (rewards.sum() - rewards) / (G - 1)
            sizes.append(float(np.abs(advantages).mean()))
            signal = 0.0 if name.startswith("noisy") else float(advantages @ (rewards - p)) / G
            noise = self.rng.standard_normal(SKILLS) * (0.1 * abs(signal) if signal else 0.1)
            gradient += signal * self.reading(name, step) + noise
            if len(sizes) == GROUPS:
                break
        self.weights.skills.grad = torch.tensor(-gradient / max(1, len(sizes)), dtype=torch.float32)
        return fmean(sizes) if sizes else 0.0, bool(sizes)

    def worth(self) -> float:
        """The final mean reward."""
        hardness = self.rng.normal(0.5, 1.5, 2_000)
        counted = [name for name in NAMES if name.startswith(("useful", "drifting"))]
        return fmean(float(self.chance(name, STEPS + 1, hardness).mean()) for name in counted)


def play(scheduler: Scheduler, seed: int, move: str) -> tuple[Counter[str], float]:
    """Steps by kind of harness, and the final mean reward."""
    world, spent = World(seed), Counter[str]()
    for step in range(1, STEPS + 1):
        names = scheduler.choose(1, step)
        learnability, any_gradient = world.step(names, step)
        cosines = {}
        if any_gradient:
            cosines = scheduler.sketch(names[0], world.weights) if scheduler.sketch else {}
            with torch.no_grad():
                gradient = world.weights.skills.grad
                world.weights.skills.sub_(0.5 * gradient if move == "plain" else 0.1 * gradient / gradient.norm())
        scheduler.observe(StepSignal(names, learnability, cosines))
        for name in names:
            spent[name.partition("-")[0]] += 1 / len(names)
    return spent, world.worth()


def interval(values: Sequence[float]) -> list[float]:
    """Mean, low and high: a 95% t interval over seeds."""
    half = float(student.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / len(values) ** 0.5)
    return [round(fmean(values) + side * half, 4) for side in (0, -1, 1)]


def compare(move: str, figures: dict[str, object]) -> list[list[float]]:
    """Print the table of one way to move, add it to the figures, and return the bandit's gains."""
    made = {
        "bandit": lambda seed: Bandit(NAMES, dimension=SKILLS, seed=seed),
        "mixed": lambda seed: Mixed(NAMES),
        "round_robin": lambda seed: RoundRobin(NAMES),
    }
    kinds = list(dict.fromkeys(KINDS))
    print(f"{move:12}" + "".join(f"{kind:>13}" for kind in kinds) + "   final mean reward")
    worth: dict[str, list[float]] = {}
    table: dict[str, object] = {}
    for name, make in made.items():
        runs = [play(make(seed), seed, move) for seed in range(SEEDS)]
        worth[name] = [reward for _, reward in runs]
        steps = {kind: round(fmean(spent[kind] for spent, _ in runs), 1) for kind in kinds}
        mean, low, high = interval(worth[name])
        print(
            f"{name:12}" + "".join(f"{steps[kind]:13.1f}" for kind in kinds) + f"   {mean:.3f} [{low:.3f}, {high:.3f}]"
        )
        table[name] = {"steps": steps, "reward": [mean, low, high]}
    gains = []
    for other in ("mixed", "round_robin"):
        gain = interval([a - b for a, b in zip(worth["bandit"], worth[other], strict=True)])
        print(f"bandit - {other}: {gain[0]:+.3f} [{gain[1]:+.3f}, {gain[2]:+.3f}]")
        table[f"bandit - {other}"] = gain
        gains.append(gain)
    print()
    figures[move] = table
    return gains


def main() -> None:
    """Print the tables and the JSON line."""
    visits = [paper(seed) for seed in range(SEEDS)]
    fewest, most = sorted(min(one) for one in visits), sorted(max(one) for one in visits)
    print("the paper's case, mean visits of 150: ", end="")
    means = {name: fmean(one[i] for one in visits) for i, name in enumerate(FIGURE_2)}
    print(", ".join(f"{name} {mean:.1f}" for name, mean in means.items()))
    print(f"fewest {fewest[0]} to {fewest[-1]}, mean {fmean(fewest):.1f} (the paper: 21); ", end="")
    print(f"most {most[0]} to {most[-1]}, mean {fmean(most):.1f} (the paper: 32)\n")
    figures: dict[str, object] = {"paper": {"fewest": fewest, "most": most, "mean": means}}
    gains = [gain for move in ("plain", "unit") for gain in compare(move, figures)]
    shape = fewest[0] <= 21 <= fewest[-1] and most[0] <= 32 <= most[-1]
    goal = "the paper's 21 and 32 visits within those of the seeds; final mean reward above mixed and round robin"
    met = shape and all(low > 0 for _, low, _ in gains)
    print(json.dumps({"bench": "bandit", "figures": figures, "goal": goal, "met": met}))


if __name__ == "__main__":
    main()
