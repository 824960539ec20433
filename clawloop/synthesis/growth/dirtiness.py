"""The dirtiness draw (paper, 4.1): distractors, missing fields, schema drift, mixed units."""

from dataclasses import replace

from clawloop.types import Card


class Dirtiness:
    """Marks a card for noise, which its generator then injects and declares in the contract.

    The answer is computed on the perturbed data. Level 3 gets one kind of noise, level 4 all four.

    A card of the domain route stays as it is: there the structure of the task graph is the difficulty.

    Args:
        from_level: the lowest level that gets it.
    """

    def __init__(self, from_level: int = 3) -> None:
        self._from_level = from_level

    def grow(self, card: Card) -> Card:
        """The card with `dirtiness` in its growth; unchanged below the level, and where it is there already."""
        if card.route == "domain" or card.level < self._from_level or "dirtiness" in card.growth:
            return card
        return replace(card, growth=(*card.growth, "dirtiness"))
