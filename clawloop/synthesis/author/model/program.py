"""A card of the capability route as a question: the model writes the whole generator (paper, 4.1)."""

from functools import partial

from clawloop.synthesis.author.model import prompt, reading
from clawloop.synthesis.author.model.demands import unmet
from clawloop.synthesis.author.model.trial import Trial, Trials
from clawloop.synthesis.dialogue import Judged
from clawloop.types import Card, DiagnosisReport, Generator, Message


class Program:
    """Asks for a generator. A reply is read (one block, nothing that a generator may not do) and tried.

    Args:
        card: what the task is to be.
        report: F_{k-1}.
        trials: tries a generator.
        timeout_s: seconds that it may run.
        system: the file of the system prompt.

    Raises:
        ValueError: there is no such domain.
    """

    def __init__(self, card: Card, report: DiagnosisReport, trials: Trials, timeout_s: float, system: str) -> None:
        self._card, self._trials, self._timeout_s = card, trials, timeout_s
        self.opening = prompt.opening(card, report, system)
        self.nothing = Trial(Generator("", card.seed, timeout_s))

    def judge(self, reply: str) -> Judged[Trial]:
        """The fault is reply (not one block), reading (it may not run), or one of `Trials`."""
        try:
            program = reading.program(reply) + prompt.text("main.py.txt")
        except reading.ReadingError as error:
            return Judged(self.nothing, error.fault, str(error))
        return self._trials(
            self._card, Generator(program, self._card.seed, self._timeout_s), partial(unmet, self._card)
        )

    def again(self, said: str) -> Message:
        """The turn that asks for a better program."""
        return prompt.repair(said)
