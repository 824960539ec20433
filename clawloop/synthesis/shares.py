"""How a routine shares its cards over capabilities: the weak ones in F_{k-1} get more, and each gets one first."""

import random
from collections.abc import Iterator, Mapping, Sequence

from clawloop.types import DiagnosisReport


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
    shares = {name: int(place < count) for place, name in enumerate(names)}
    left, whole = max(count - len(names), 0), sum(weights.values())
    quotas = {name: left * weights[name] / whole for name in names}
    for name in names:
        shares[name] += int(quotas[name])
    missing = count - sum(shares.values())
    for name in sorted(names, key=lambda name: int(quotas[name]) - quotas[name])[:missing]:
        shares[name] += 1
    return shares


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
