"""The multi-hop draw (paper, 4.1): an index file, one detail file an entity, a reference that cuts across."""

from dataclasses import replace

from clawloop.types import Card


class MultiHop:
    """Marks a card for the multi-hop structure, which its generator then builds and declares (`Candidate.hops`).

    The index lists entities and their files and holds no value that the answer needs; no detail file is enough by
    itself; rates, limits or codes come from a reference that all entities share. `validation.check.growth` proves it on
    the workspace. In the domain route the entities are requests, which say what the instruction else would.

    Args:
        from_level: the lowest level that gets it.
    """

    def __init__(self, from_level: int = 3) -> None:
        self._from_level = from_level

    def grow(self, card: Card) -> Card:
        """The card with `multi_hop` in its growth; unchanged below the level, and where it is there already."""
        if card.level < self._from_level or "multi_hop" in card.growth:
            return card
        return replace(card, growth=tuple(sorted((*card.growth, "multi_hop"))))
