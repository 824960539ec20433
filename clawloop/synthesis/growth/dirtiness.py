"""The dirtiness draw (paper, 4.1): distractors, missing fields, schema drift, mixed units."""

from dataclasses import replace

from clawloop.types import Card


class Dirtiness:
    """Marks a card for noise, which its generator then injects, declares in the contract and lists (`Card.noise`).

    The answer is computed on the perturbed data, and `validation.check.growth` proves what a workspace shows of it. The
    library injects distractors and missing fields up to level 3, and from level 4 on also schema drift and, where there
    are numbers to be read, mixed units. It acts with multi-hop or without, and in any order.

    Args:
        from_level: the lowest level that gets it.
    """

    def __init__(self, from_level: int = 3) -> None:
        self._from_level = from_level

    def grow(self, card: Card) -> Card:
        """The card with `dirtiness` in its growth; unchanged below the level, and where it is there already."""
        if card.level < self._from_level or "dirtiness" in card.growth:
            return card
        return replace(card, growth=tuple(sorted((*card.growth, "dirtiness"))))
