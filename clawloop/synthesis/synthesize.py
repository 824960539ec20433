"""Dual-route synthesis (paper, 4.1; Algorithm 1, line 5): from F_{k-1} to the raw candidates of iteration k."""

import random
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures.thread import ThreadPoolExecutor
from dataclasses import replace

from clawloop.protocols import Author, Difficulty, Growth, Policy, Routine, Sandboxes, Shelf
from clawloop.synthesis.generator import GeneratorError, candidate, run
from clawloop.synthesis.shares import apportioned
from clawloop.types import Candidate, Card, DiagnosisReport, Draft, Finding, Generator


class Synthesize:
    """Draws cards from the routines, grows them, has their generators written, and runs these in boxes.

    A generator that fails gives a candidate without a task and with the finding `generator`.

    Args:
        routines: say which tasks to make; each gets an equal share of `count`, the first ones the remainder.
        author: writes the generator of a card; may be called from `workers` threads at once.
        growth: make a card harder, applied in order.
        difficulty: gives each capability's mix of levels from the last report.
        sandboxes: opens the boxes in which generators run.
        count: candidates per iteration.
        seed: the run's seed; with k it decides every card.
        workers: candidates at once.
        shelf: keeps each candidate as it is made; one that it holds is not made again. None keeps nothing.
        progress: told (phase, candidates done, candidates in all).
    """

    def __init__(
        self,
        routines: Mapping[str, Routine] | Sequence[Routine],
        author: Author,
        growth: Mapping[str, Growth] | Sequence[Growth],
        difficulty: Difficulty,
        sandboxes: Sandboxes,
        count: int,
        seed: int,
        workers: int = 2,
        shelf: Shelf | None = None,
        progress: Callable[[str, int, int], None] = lambda phase, done, total: None,
    ) -> None:
        self._routines = tuple(routines.values() if isinstance(routines, Mapping) else routines)
        self._growth = tuple(growth.values() if isinstance(growth, Mapping) else growth)
        if not self._routines:
            raise ValueError("synthesis needs at least one routine; name one, such as routine=[capability].")
        if count < 1 or workers < 1:
            raise ValueError(f"synthesis needs count and workers of at least 1, not {count} and {workers}.")
        self._author, self._difficulty, self._sandboxes = author, difficulty, sandboxes
        self._count, self._seed, self._workers = count, seed, workers
        self._shelf, self._progress = shelf, progress

    def __call__(self, policy: Policy, report: DiagnosisReport, k: int) -> tuple[Candidate, ...]:
        """P_k^raw, in the order of the cards whatever the threads' timing; ids are k<k>-<index>.

        Raises:
            InfrastructureError: a box broke.
        """
        cards = self._cards(report, k)
        found: list[Candidate] = []
        with ThreadPoolExecutor(self._workers, thread_name_prefix="generator") as pool:
            for made in pool.map(lambda pair: self._recall(k, pair[0], pair[1], policy, report), enumerate(cards)):
                found.append(made)
                self._progress(f"k{k}/synthesis", len(found), len(cards))
        return tuple(found)

    def _cards(self, report: DiagnosisReport, k: int) -> list[Card]:
        capabilities = tuple(dict.fromkeys(name for routine in self._routines for name in routine.capabilities))
        mix = self._difficulty.mix(capabilities, report)
        cards: list[Card] = []
        for index, routine in enumerate(self._routines):
            share = len(range(index, self._count, len(self._routines)))
            seed = random.Random(f"{self._seed}/{k}/routine/{index}").getrandbits(48)
            drawn = routine.cards(share, report, seed)
            if len(drawn) != share:
                raise ValueError(f"{type(routine).__name__} gave {len(drawn)} cards where {share} were asked for.")
            cards.extend(drawn)
        cards = _levelled(cards, mix, random.Random(f"{self._seed}/{k}/levels"))
        for growth in self._growth:
            cards = [growth.grow(card) for card in cards]
        return cards

    def _recall(self, k: int, position: int, card: Card, policy: Policy, report: DiagnosisReport) -> Candidate:
        """A candidate from the shelf, or made and put there."""
        id = f"k{k}-{position:04d}"
        kept = self._shelf.candidate(id) if self._shelf is not None else None
        if kept is not None and (kept.card.lineage, kept.card.seed) == (card.lineage, card.seed):
            return kept
        made = self._make(id, card, policy, report)
        if self._shelf is not None:
            self._shelf.add_candidate(k, position, made)
        return made

    def _make(self, id: str, card: Card, policy: Policy, report: DiagnosisReport) -> Candidate:
        draft = Draft(Generator("", card.seed))
        try:
            draft = self._author.write(card, policy, report)
            if draft.failure:
                raise GeneratorError(draft.failure)
            made = candidate(id, card, draft.generator, run(draft.generator, self._sandboxes))
        except GeneratorError as error:
            made = Candidate(id, card, draft.generator, findings=(Finding("generator", False, str(error)),))
        return replace(made, attempts=draft.attempts)


def _levelled(cards: Sequence[Card], mix: Mapping[str, Mapping[int, float]], rng: random.Random) -> list[Card]:
    """The cards with levels in the shares of `mix`, largest remainders first, dealt by lot within a capability."""
    dealt: dict[str, list[int]] = {}
    for name in dict.fromkeys(card.capability for card in cards):
        counts = apportioned(sum(card.capability == name for card in cards), mix[name])
        levels = [level for level, count in counts.items() for _ in range(count)]
        rng.shuffle(levels)
        dealt[name] = levels
    return [replace(card, level=dealt[card.capability].pop()) for card in cards]
