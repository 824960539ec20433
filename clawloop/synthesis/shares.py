"""How cards are shared out: over capabilities, of which the weak ones in F_{k-1} get more, and over levels."""

import random
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TypeVar

from clawloop.types import DiagnosisReport

T = TypeVar("T", bound=Hashable)


def weight(name: str, report: DiagnosisReport) -> float:
    """1 + 2 * (1 - rate) + min(failures, 8) / 8, with a capability's pass rate and its patterns' failures in F_{k-1}.

    One that always fails gets about three to four times the cards of a perfect one. What F_{k-1} does not know weighs
    as much as a rate of one half.
    """
    known = report.proficiency.get(name)
    rate = known.rate if known is not None and known.trials else 0.5
    failures = sum(pattern.count for pattern in report.patterns if pattern.capability == name)
    return 1 + 2 * (1 - rate) + min(failures, 8) / 8


def shares(count: int, weights: Mapping[str, float], rng: random.Random) -> dict[str, int]:
    """One each, then by weight with the largest remainders first; ties, and too few for all, by lot."""
    names = sorted(weights)
    rng.shuffle(names)
    more = apportioned(max(count - len(names), 0), {name: weights[name] for name in names})
    return {name: int(place < count) + more[name] for place, name in enumerate(names)}


def apportioned(count: int, weights: Mapping[T, float]) -> dict[T, int]:
    """`count` by weight, the largest remainders first, and of equal ones the first.

    >>> apportioned(5, {"a": 0.5, "b": 0.3, "c": 0.2})
    {'a': 3, 'b': 1, 'c': 1}
    """
    whole = sum(weights.values())
    quotas = {name: count * weight / whole for name, weight in weights.items()}
    dealt = {name: int(quota) for name, quota in quotas.items()}
    for name in sorted(quotas, key=lambda name: dealt[name] - quotas[name])[: count - sum(dealt.values())]:
        dealt[name] += 1
    return dealt


def turns(shares: Mapping[str, int]) -> Iterator[str]:
    """The names by their shares, taking turns, so that any prefix is mixed too."""
    for turn in range(max(shares.values(), default=0)):
        yield from (name for name, share in shares.items() if share > turn)


def deal(items: Sequence[str], rng: random.Random) -> Iterator[str]:
    """The items over and over, in a new order each time."""
    while True:
        order = list(items)
        rng.shuffle(order)
        yield from order
