"""`author: model`: the loop model writes the generator of a card, and mends it where it fails (paper, 4.1)."""

import hashlib
from collections.abc import Mapping

from clawloop.protocols import Author, Check, Policy, Sandboxes
from clawloop.synthesis.author.model import prompt, reading
from clawloop.synthesis.author.model.demands import unmet
from clawloop.synthesis.generator import GeneratorError, candidate, run
from clawloop.types import Attempt, Card, Completion, DiagnosisReport, Draft, Generator, Message, Request

_BOUND = {"context": "the conversation's context", "length": "the tokens that a reply may have"}


class Model:
    """Asks for a generator, tries it, and says what was wrong until it is right or no repair is left.

    A reply is read (one block, nothing that a generator may not do), its program is run in a box, what it built is
    held against its card, and the checks of the screen look at it, up to the first that fails. That first sentence is
    the next user turn. Where the last reply ran but a check refuses it, the draft still goes to the screen, which says
    so itself; where it did not run, the draft has a `failure`.

    An attempt's `fault` is context (no room for a reply), length (the reply was cut), reply (not one block), reading
    (it may not run), timeout, stopped, crash, output, contract (see `synthesis.generator.GeneratorError`), card (a
    demand of the card is not met), or the name of a check.

    Args:
        sandboxes: opens the boxes in which programs run.
        checks: the checks of the screen that look at one candidate, by name.
        shipped: writes the cards of other routes than the capability route.
        repairs: how often a card's program may be mended.
        reply_tokens: tokens that one reply may have.
        timeout_s: seconds that a generator may run.
        system: the file of the system prompt, full.md, or brief.md for models with little context.
    """

    def __init__(
        self,
        sandboxes: Sandboxes,
        checks: Mapping[str, Check],
        shipped: Author,
        repairs: int = 2,
        reply_tokens: int = 8_192,
        timeout_s: float = 20.0,
        system: str = "full.md",
    ) -> None:
        if repairs < 0 or reply_tokens < 1:
            raise ValueError(f"author needs repairs >= 0 and reply_tokens >= 1, not {repairs} and {reply_tokens}.")
        self._sandboxes, self._checks, self._shipped, self._repairs = sandboxes, checks, shipped, repairs
        self._reply_tokens, self._timeout_s, self._system = reply_tokens, timeout_s, system
        prompt.text(system)

    def write(self, card: Card, policy: Policy, report: DiagnosisReport) -> Draft:
        """The generator of a card and every attempt at it; the card's seed alone decides the sampling noise.

        Raises:
            ValueError: there is no such domain.
            InfrastructureError: a box or the engine broke.
        """
        if card.route != "capability":
            return self._shipped.write(card, policy, report)
        asked = prompt.opening(card, report, self._system)
        messages: tuple[Message, ...] = ()
        attempts: list[Attempt] = []
        while True:
            messages += asked
            noise = hashlib.sha256(f"{card.seed}/author/{len(attempts)}".encode()).digest()
            request = Request(messages, f"author/{card.lineage}", int.from_bytes(noise[:6], "big"), self._reply_tokens)
            reply = policy.complete(request)
            generator, fault, said, ran = self._try(card, reply)
            attempts.append(Attempt(asked, reply.text, fault, said))
            if not fault or fault == "context" or len(attempts) > self._repairs:
                return Draft(generator, tuple(attempts), "" if ran else said)
            messages += (Message("assistant", reply.text, reply.ids),)
            asked = (prompt.repair(said),)

    def _try(self, card: Card, reply: Completion) -> tuple[Generator, str, str, bool]:
        """The generator of a reply, where it was refused and why, and whether it ran."""
        generator = Generator("", card.seed, self._timeout_s)
        if reply.finish in ("context", "length"):
            return generator, reply.finish, f"The reply did not end: it ran out of {_BOUND[reply.finish]}.", False
        try:
            generator = Generator(reading.program(reply.text) + prompt.text("main.py.txt"), card.seed, self._timeout_s)
            build = run(generator, self._sandboxes)
        except reading.ReadingError as error:
            return generator, error.fault, str(error), False
        except GeneratorError as error:
            return generator, error.kind, str(error), False
        if said := unmet(card, build):
            return generator, "card", said, False
        made = candidate(card.lineage, card, generator, build)
        for name, check in self._checks.items():
            finding = check(made)
            if not finding.passed:
                return generator, name, finding.reason, True
        return generator, "", "", True
