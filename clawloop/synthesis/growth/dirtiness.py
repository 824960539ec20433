"""The dirtiness draw (paper, 4.1): distractors, missing fields, schema drift, mixed units."""

from dataclasses import replace

from clawloop.types import Card


class Dirtiness:
    """Marks a card for noise, which its generator then injects, declares in the contract and lists (`Card.noise`).

    The answer is computed on the perturbed data. In the library, level 3 gets distractors and missing fields, level 4
    also schema drift and mixed units, in tasks that are multi-hop.

    Args:
        from_level: the lowest level that gets it.
    """

    def __init__(self, from_level: int = 3) -> None:
        self._from_level = from_level

    def grow(self, card: Card) -> Card:
        """The card with `dirtiness` in its growth; unchanged below the level, and where it is there already."""
        if card.level < self._from_level or "dirtiness" in card.growth:
            return card
        return replace(card, growth=(*card.growth, "dirtiness"))
