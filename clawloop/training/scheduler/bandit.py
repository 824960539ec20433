"""HarnessBandit: one harness a step, by how much it teaches and how much that helps the others (its section 4)."""

import math
import random
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from clawloop.training.sketch import GradientSketch
from clawloop.types import StepSignal


class Bandit:
    """A softmax over values with a bonus for what was seldom chosen, and a floor under all.

    After a step on harness h, with n_h the steps on it so far, L its learnability and T its transferability:

        u = alpha L~ + (1 - alpha) T~       ~ is min-max over the window, which all harnesses share, clipped to [0, 1]
        V_h <- (1 - beta) V_h + beta u      from 0
        U_h = V_h + c / sqrt(n_h + 1)
        p = (1 - epsilon) softmax(U / tau) + epsilon / H

    Our text of the paper has lost the first three; they are as its words and constants say. It does not say either what
    ~ is where it cannot be had: where a window holds one value only, or no other harness has a gradient yet, it is 0.5,
    which favours nobody. The window holds the step's own value.

    Args:
        harnesses: their names, in the order of the warm-up.
        alpha: the share of learnability.
        beta: how fast a value moves.
        tau: temperature of the softmax.
        c: weight of the bonus.
        epsilon: the floor: this share of the probability is spread evenly.
        warmup: steps in turn before the values decide.
        window: steps that the scale of L and T comes from.
        dimension: coordinates of the gradient's sketch.
        blocks: the last transformer blocks that it is of.
        decay: weight of the newest gradient in a harness's average.
        seed: the run's seed.

    Raises:
        ValueError: there is nothing to choose from.
    """

    def __init__(
        self,
        harnesses: Sequence[str],
        alpha: float = 0.5,
        beta: float = 0.3,
        tau: float = 0.3,
        c: float = 0.2,
        epsilon: float = 0.15,
        warmup: int = 30,
        window: int = 32,
        dimension: int = 65_536,
        blocks: int = 4,
        decay: float = 0.3,
        seed: int = 0,
    ) -> None:
        if len(harnesses) < 2:
            only = ", ".join(harnesses)
            raise ValueError(
                f"scheduler=bandit chooses between harnesses and there is only {only}; "
                "name two or more, such as 'harness=[shell,tools]'."
            )
        self._harnesses, self._seed = tuple(harnesses), seed
        self._alpha, self._beta, self._tau, self._c, self._epsilon = alpha, beta, tau, c, epsilon
        self._warmup, self._window = warmup, window
        self.sketch = GradientSketch(dimension, blocks, decay, seed)
        self._visits = dict.fromkeys(self._harnesses, 0)
        self._values = dict.fromkeys(self._harnesses, 0.0)
        self._learnability: deque[float] = deque(maxlen=window)
        self._transferability: deque[float] = deque(maxlen=window)

    def choose(self, k: int, step: int) -> tuple[str, ...]:
        """One harness: the next in turn while warming up, and then by chance."""
        done = sum(self._visits.values())
        if done < self._warmup:
            return (self._harnesses[done % len(self._harnesses)],)
        chance = random.Random(f"{self._seed}/{k}/{step}/scheduler")
        return tuple(chance.choices(self._harnesses, list(self.probabilities().values())))

    def probabilities(self) -> dict[str, float]:
        """The p of each harness."""
        scores = [self._values[name] + self._c / math.sqrt(self._visits[name] + 1) for name in self._harnesses]
        weights = [math.exp((score - max(scores)) / self._tau) for score in scores]
        floor = self._epsilon / len(weights)
        shares = [(1 - self._epsilon) * weight / sum(weights) + floor for weight in weights]
        return dict(zip(self._harnesses, shares, strict=True))

    def observe(self, signal: StepSignal) -> Mapping[str, float]:
        """Learn from a step on one harness."""
        (name,) = signal.harnesses
        self._learnability.append(signal.learnability)
        numbers = {f"learnability/{name}": signal.learnability}
        if signal.transferability is not None:
            self._transferability.append(signal.transferability)
            numbers[f"transferability/{name}"] = signal.transferability
        utility = self._alpha * _scaled(signal.learnability, self._learnability)
        utility += (1 - self._alpha) * _scaled(signal.transferability, self._transferability)
        self._values[name] += self._beta * (utility - self._values[name])
        self._visits[name] += 1
        numbers |= {f"cosine/{name}/{other}": cosine for other, cosine in signal.cosines.items()}
        numbers |= {f"value/{one}": value for one, value in self._values.items()}
        numbers |= {f"visits/{one}": float(count) for one, count in self._visits.items()}
        return numbers | {f"p/{one}": p for one, p in self.probabilities().items()}

    def state_dict(self) -> dict[str, Any]:
        """All that the next choices depend on, the averages of gradients included."""
        return {
            "visits": dict(self._visits),
            "values": dict(self._values),
            "learnability": list(self._learnability),
            "transferability": list(self._transferability),
            "sketch": self.sketch.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        self._visits, self._values = dict(state["visits"]), dict(state["values"])
        self._learnability = deque(state["learnability"], self._window)
        self._transferability = deque(state["transferability"], self._window)
        self.sketch.load_state_dict(state["sketch"])


def _scaled(value: float | None, window: Iterable[float]) -> float:
    """Where a value lies in a window, 0 to 1; 0.5 where that cannot be said.

    >>> _scaled(3.0, [1.0, 5.0, 3.0]), _scaled(1.0, [1.0]), _scaled(None, [1.0, 2.0])
    (0.5, 0.5, 0.5)
    """
    low, high = min(window, default=0.0), max(window, default=0.0)
    if value is None or low == high:
        return 0.5
    return min(max((value - low) / (high - low), 0.0), 1.0)
