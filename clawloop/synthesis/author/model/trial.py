"""Trying what a model wrote: its generator runs in a box, and card and checks look at what it built."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from clawloop.protocols import Check, Sandboxes
from clawloop.synthesis.dialogue import Judged
from clawloop.synthesis.generator import Build, GeneratorError, candidate, run
from clawloop.types import Card, Generator


@dataclass(frozen=True, slots=True)
class Trial:
    """A generator, and whether it built a task of its card: then the screen may judge it, whatever the checks say."""

    generator: Generator
    ran: bool = False


class Trials:
    """Runs generators, and holds what they build against a card and against the checks, up to the first that fails.

    Args:
        sandboxes: opens the boxes in which programs run.
        checks: the checks of the screen that look at one candidate, by name.
    """

    def __init__(self, sandboxes: Sandboxes, checks: Mapping[str, Check]) -> None:
        self.sandboxes, self._checks = sandboxes, checks

    def __call__(self, card: Card, generator: Generator, unmet: Callable[[Build], str]) -> Judged[Trial]:
        """The fault is that of the `GeneratorError`, card (what `unmet` says), or the name of a check.

        Raises:
            InfrastructureError: a box broke.
        """
        try:
            build = run(generator, self.sandboxes)
        except GeneratorError as error:
            return Judged(Trial(generator), error.kind, str(error))
        if said := unmet(build):
            return Judged(Trial(generator), "card", said)
        made = candidate(card.lineage, card, generator, build)
        for name, check in self._checks.items():
            finding = check(made)
            if not finding.passed:
                return Judged(Trial(generator, True), name, finding.reason)
        return Judged(Trial(generator, True))
