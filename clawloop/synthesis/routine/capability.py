"""Capability-driven synthesis (paper, 4.1): a catalogue of capabilities, each practised in many domains."""

import random
from collections.abc import Sequence

from clawloop.synthesis.lexicon import training_domains, vocabulary
from clawloop.synthesis.shares import deal, shares, turns, weight
from clawloop.types import Card, DiagnosisReport

PATTERNS = ("reconciliation", "audit", "merge", "calculation")
TRACKS = ("analysis", "terminal")
FORMS = ("json", "csv", "files", "report")


class Capability:
    """Draws cards over the catalogue: four workflow patterns, each on one or both tracks.

    Weak capabilities in F_{k-1} get more cards (see `shares.weight`); each gets one before any gets more.

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
        dealt = shares(count, {name: weight(name, report) for name in self._capabilities}, rng)
        domains, forms = deal(self._domains, rng), {name: deal(self._forms, rng) for name in self._capabilities}
        cards = []
        for name in turns(dealt):
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
