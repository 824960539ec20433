"""training/scheduler/bandit: equal to a plain reading of its formulas, and to itself after a stop."""

import math
import random
from collections import Counter
from typing import Any

import pytest
import torch

from clawloop.training.scheduler.bandit import Bandit
from clawloop.types import StepSignal

NAMES = ("a", "b", "c")


def plain_p(history: list[tuple[str, float, float | None]], window: int) -> dict[str, float]:
    """The probabilities after a history of (harness, L, T), from the start, with nothing kept."""
    value, visits = dict.fromkeys(NAMES, 0.0), Counter[str]()
    for t, (name, learn, transfer) in enumerate(history):
        lately = history[max(0, t + 1 - window) : t + 1]
        learns = [one[1] for one in lately]
        transfers = [one[2] for one in history[: t + 1] if one[2] is not None][-window:]

        def scaled(x: float | None, seen: list[float]) -> float:
            return 0.5 if x is None or min(seen) == max(seen) else (x - min(seen)) / (max(seen) - min(seen))

        u = 0.5 * scaled(learn, learns) + 0.5 * scaled(transfer, transfers)
        value[name] = 0.7 * value[name] + 0.3 * u
        visits[name] += 1
    e = {name: math.exp((value[name] + 0.2 / math.sqrt(visits[name] + 1)) / 0.3) for name in NAMES}
    return {name: 0.85 * e[name] / sum(e.values()) + 0.15 / 3 for name in NAMES}


def signals(count: int, seed: int = 0) -> list[tuple[str, float, float | None]]:
    chance = random.Random(seed)
    found = []
    for t in range(count):
        transfer = None if t % 7 == 0 else chance.uniform(-0.3, 0.6)
        found.append((chance.choice(NAMES), chance.uniform(0.2, 0.6), transfer))
    return found


def told(bandit: Bandit, history: list[tuple[str, float, float | None]]) -> dict[str, float]:
    numbers: Any = {}
    for name, learn, transfer in history:
        numbers = bandit.observe(StepSignal((name,), learn, {} if transfer is None else {"x": transfer}))
    return dict(numbers)


@pytest.mark.parametrize("steps", [0, 1, 5, 40, 100])
@pytest.mark.parametrize("window", [4, 32])
def test_the_probabilities_are_those_of_the_formulas(steps: int, window: int) -> None:
    bandit, history = Bandit(NAMES, window=window), signals(steps)
    numbers = told(bandit, history)
    wanted = plain_p(history, window)
    assert bandit.probabilities() == pytest.approx(wanted, abs=1e-12)
    assert sum(bandit.probabilities().values()) == pytest.approx(1)
    if steps:
        assert {name: numbers[f"p/{name}"] for name in NAMES} == bandit.probabilities()
        assert sum(numbers[f"visits/{name}"] for name in NAMES) == steps


def test_the_warm_up_goes_round_and_then_chance_follows_p() -> None:
    bandit = Bandit(NAMES, warmup=7)
    seen = []
    for step in range(1, 8):
        (name,) = bandit.choose(1, step)
        seen.append(name)
        bandit.observe(StepSignal((name,), 0.9 if name == "b" else 0.1, {"x": 0.5 if name == "b" else -0.5}))
    assert seen == [*NAMES, *NAMES, "a"]
    drawn = Counter(bandit.choose(1, step)[0] for step in range(8, 4008))
    for name, p in bandit.probabilities().items():
        assert drawn[name] / 4000 == pytest.approx(p, abs=0.03)
    assert drawn["b"] > drawn["a"] > 0.05 * 4000


def test_a_harness_that_never_pays_keeps_its_floor() -> None:
    bandit = Bandit(NAMES)
    for _ in range(200):
        bandit.observe(StepSignal(("a",), 1.0, {"x": 1.0}))
        bandit.observe(StepSignal(("b",), 0.0, {"x": -1.0}))
    p = bandit.probabilities()
    assert p["a"] > 0.7 and p["b"] >= 0.15 / 3 and p["c"] >= 0.15 / 3


def test_choices_come_from_the_seed_the_iteration_and_the_step_alone() -> None:
    def choices(seed: int, k: int) -> list[str]:
        bandit = Bandit(NAMES, warmup=0, seed=seed)
        return [bandit.choose(k, step)[0] for step in range(60)]

    state = random.getstate(), torch.get_rng_state()
    assert choices(0, 1) == choices(0, 1)
    assert choices(0, 1) != choices(1, 1)
    assert choices(0, 1) != choices(0, 2)
    assert random.getstate() == state[0] and torch.equal(torch.get_rng_state(), state[1])


def test_one_harness_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match=r"there is only shell; name two or more, such as 'harness=\[shell,tools\]'"):
        Bandit(("shell",))
