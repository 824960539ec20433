"""Capability-driven synthesis (paper, 4.1): a catalogue of capabilities, each practised in many domains."""

import random
from collections.abc import Iterator, Mapping, Sequence

from clawloop.synthesis.lexicon import training_domains, vocabulary
from clawloop.types import Card, DiagnosisReport

PATTERNS = ("reconciliation", "audit", "merge", "calculation")
TRACKS = ("analysis", "terminal")
FORMS = ("json", "csv", "files", "report")


class Capability:
    """Draws cards over the catalogue: four workflow patterns, each on one or both tracks.

    A capability weighs 1 + 2 * (1 - rate) + min(failures, 8) / 8, with its pass rate and the failures of its patterns
    in F_{k-1}: one that always fails gets about three to four times the cards of a perfect one. What F_{k-1} does not
    know weighs as much as a rate of one half. Each capability gets a card before any gets more.

    Args:
        tracks: analysis (the deliverables are files), terminal (the deliverables are end states of the workspace).
        domains: names to draw from; all that are not held for the probe if None.
        forms: deliverable forms, dealt round-robin: json, csv, files (several), report (text with a JSON sidecar).
    """

    def __init__(
        self,
        tracks: Sequence[str] = TRACKS,
        domains: Sequence[str] | None = None,
        forms: Sequence[str] = FORMS,
    ) -> None:
        for name, given, known in (("tracks", tracks, TRACKS), ("forms", forms, FORMS)):
            if not given or not set(given) <= set(known):
                raise ValueError(f"routine.capability.{name} must be some of {', '.join(known)}, not {list(given)}.")
        self._domains = training_domains() if domains is None else tuple(domains)
        if not self._domains:
            raise ValueError("routine.capability.domains must name at least one domain, or be null for all.")
        for domain in self._domains:
            vocabulary(domain)
        self._forms = tuple(forms)
        self._capabilities = tuple(f"{pattern}/{track}" for pattern in PATTERNS for track in TRACKS if track in tracks)

    @property
    def capabilities(self) -> tuple[str, ...]:
        """Names of the catalogue, such as reconciliation/analysis."""
        return self._capabilities

    def cards(self, count: int, report: DiagnosisReport, seed: int) -> tuple[Card, ...]:
        """`count` cards of level 0, decided by `seed`; capabilities take turns, so that any prefix is mixed too."""
        rng = random.Random(f"{seed}/capability")
        shares = _shares(count, {name: _weight(name, report) for name in self._capabilities}, rng)
        domains, forms = _deal(self._domains, rng), {name: _deal(self._forms, rng) for name in self._capabilities}
        cards = []
        for name in _turns(shares):
            domain, own = next(domains), rng.getrandbits(31)
            cards.append(
                Card(
                    route="capability",
                    capability=name,
                    track=name.partition("/")[2],
                    domain=domain,
                    level=0,
                    form=next(forms[name]),
                    seed=own,
                    lineage=f"{name}/{domain}/{own}",
                )
            )
        return tuple(cards)


def _weight(name: str, report: DiagnosisReport) -> float:
    known = report.proficiency.get(name)
    rate = known.rate if known is not None and known.trials else 0.5
    failures = sum(pattern.count for pattern in report.patterns if pattern.capability == name)
    return 1 + 2 * (1 - rate) + min(failures, 8) / 8


def _shares(count: int, weights: Mapping[str, float], rng: random.Random) -> dict[str, int]:
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


def _turns(shares: Mapping[str, int]) -> Iterator[str]:
    for turn in range(max(shares.values(), default=0)):
        yield from (name for name, share in shares.items() if share > turn)


def _deal(items: Sequence[str], rng: random.Random) -> Iterator[str]:
    """The items over and over, in a new order each time."""
    while True:
        order = list(items)
        rng.shuffle(order)
        yield from order
