"""`author: model`: the loop model writes the task of a card, and mends it where it fails (paper, 4.1)."""

from collections.abc import Mapping, Sequence

from clawloop.protocols import Check, Policy, Sandboxes
from clawloop.synthesis.author.model import prompt
from clawloop.synthesis.author.model.instruction import Instruction
from clawloop.synthesis.author.model.program import Program
from clawloop.synthesis.author.model.trial import Trial, Trials
from clawloop.synthesis.dialogue import Dialogue, Question
from clawloop.types import Card, DiagnosisReport, Draft


class Model:
    """Asks for what a card needs, tries it, and says what was wrong until it is right or no repair is left.

    For a card of the capability route that is the whole generator, for one of the domain route the instruction. A reply
    is read, its generator is run in a box, what it built is held against its card, and the checks of the screen look at
    it, up to the first that fails. That first sentence is the next user turn. Where the last reply ran but a check
    refuses it, the draft still goes to the screen, which says so itself; where it did not run, the draft has a
    `failure`.

    An attempt's `fault` is context (no room for a reply), length (the reply was cut), reply (not of the form that was
    asked for), reading (the program may not run), gaps, telling or leak (see `telling.sentences`), timeout, stopped,
    crash, output, contract (see `synthesis.generator.GeneratorError`), card (a demand of the card is not met), or the
    name of a check.

    Args:
        sandboxes: opens the boxes in which programs run.
        checks: the checks of the screen that look at one candidate, by name.
        folders: domains of your own, for cards of the domain route.
        repairs: how often a card's reply may be mended.
        reply_tokens: tokens that one reply may have.
        timeout_s: seconds that a generator which the model wrote may run.
        system: the file of the system prompt, full.md, or brief.md for models with little context.
    """

    def __init__(
        self,
        sandboxes: Sandboxes,
        checks: Mapping[str, Check],
        folders: Sequence[str] = (),
        repairs: int = 2,
        reply_tokens: int = 8_192,
        timeout_s: float = 20.0,
        system: str = "full.md",
    ) -> None:
        self._dialogue, self._trials = Dialogue(repairs, reply_tokens), Trials(sandboxes, checks)
        self._folders, self._timeout_s, self._system = tuple(folders), timeout_s, system
        for name in (system, f"instruction_{system}"):
            prompt.text(name)

    def write(self, card: Card, policy: Policy, report: DiagnosisReport) -> Draft:
        """The generator of a card and every attempt at it; the card's seed alone decides the sampling noise.

        Raises:
            ValueError: there is no such domain.
            GeneratorError: the domain's tools cannot carry a card of the domain route.
            InfrastructureError: a box or the engine broke.
        """
        question: Question[Trial]
        if card.route == "domain":
            question = Instruction(card, self._folders, self._trials, self._system)
        else:
            question = Program(card, report, self._trials, self._timeout_s, self._system)
        judged, attempts = self._dialogue(policy, question, f"author/{card.lineage}", f"{card.seed}/author")
        return Draft(judged.value.generator, attempts, "" if judged.value.ran else judged.said)
