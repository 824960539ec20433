"""`author: library`: a card becomes a program that the project ships, with the card's domain written into it."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from importlib.resources import files

from clawloop.protocols import Policy
from clawloop.synthesis.author.library.grounded import grounded
from clawloop.synthesis.lexicon import vocabulary
from clawloop.types import Card, DiagnosisReport, Draft, Generator


class Library:
    """Renders a self-contained program (standard library only) whose `build(seed)` makes (s0, y, C) for a card.

    Args:
        folders: domains of your own, for cards of the domain route.
    """

    def __init__(self, folders: Sequence[str] = ()) -> None:
        self._folders = tuple(folders)

    def write(self, card: Card, policy: Policy, report: DiagnosisReport) -> Draft:
        """The generator of a card; the policy is not asked, and the report not read.

        Raises:
            ValueError: the library has no such domain.
            GeneratorError: the domain's tools cannot carry a card of the domain route.
        """
        if card.route == "domain":
            return Draft(grounded(card, self._folders))
        domain = vocabulary(card.domain)
        shown = {
            name: value for name, value in asdict(card).items() if name in ("capability", "level", "form", "growth")
        }
        head = f"CARD = {shown!r}\nDOMAIN = {domain!r}\nVERIFY = {_text('verify.py.txt')!r}\n"
        grown = _text("records.py.txt") if card.growth else ""
        return Draft(Generator(head + grown + _text("program.py.txt"), card.seed))


@cache
def _text(name: str) -> str:
    return files("clawloop.synthesis.author.library").joinpath(name).read_text()
