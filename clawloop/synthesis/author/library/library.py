"""`author: library`: a card becomes a program that the project ships, with the card's domain written into it."""

from dataclasses import asdict
from functools import cache
from importlib.resources import files

from clawloop.protocols import Policy
from clawloop.synthesis.lexicon import vocabulary
from clawloop.types import Card, DiagnosisReport, Draft, Generator


class Library:
    """Renders a self-contained program (standard library only) whose `build(seed)` makes (s0, y, C) for a card."""

    def write(self, card: Card, policy: Policy, report: DiagnosisReport) -> Draft:
        """The generator of a card; the policy is not asked, and the report not read.

        Raises:
            ValueError: the library has no such domain.
        """
        domain = vocabulary(card.domain)
        shown = {
            name: value for name, value in asdict(card).items() if name in ("capability", "level", "form", "growth")
        }
        head = f"CARD = {shown!r}\nDOMAIN = {domain!r}\nVERIFY = {_text('verify.py.txt')!r}\n"
        return Draft(Generator(head + _text("program.py.txt"), card.seed))


@cache
def _text(name: str) -> str:
    return files("clawloop.synthesis.author.library").joinpath(name).read_text()
