"""A card of the domain route as a question: the model writes the instruction, behind the information barrier (4.1).

Plan, world, gold trajectory and predicates are exact, as with `author: library`. What the model is asked depends on the
`Brief` alone.
"""

from collections.abc import Sequence
from string import Template

from clawloop.synthesis.author.library.grounded import Ground, brief, ground
from clawloop.synthesis.author.model import prompt, telling
from clawloop.synthesis.author.model.reading import ReadingError
from clawloop.synthesis.author.model.trial import Trial, Trials
from clawloop.synthesis.dialogue import Judged
from clawloop.synthesis.generator import GeneratorError, run
from clawloop.synthesis.skills.ground import Plan
from clawloop.synthesis.skills.instruct import Brief, expanded, goals, instruct, instruction
from clawloop.types import Card, Generator, Message

_TRIES = 100  # draws after which a plan is taken to have no world; another plan is tried then


class Instruction:
    """Asks for the instruction of a plan that some world supports. A reply is read (`telling`), and its task is tried.

    Args:
        card: what the task is to be.
        folders: domains of your own.
        trials: tries a generator.
        system: the file of the system prompt, of which the one that begins with instruction_ is taken.

    Raises:
        GeneratorError: the domain cannot carry the card, or no world supports one of its plans.
        InfrastructureError: a box broke.
    """

    def __init__(self, card: Card, folders: Sequence[str], trials: Trials, system: str) -> None:
        self._card, self._trials = card, trials
        self._ground = ground(card, folders)
        self._plan, self._brief = _supported(self._ground, trials)
        self._names = {skill.name for skill in self._ground.domain.skills} | set(self._ground.domain.tools)
        self.opening = opening(self._brief, system)
        self.nothing = Trial(Generator("", card.seed))

    def judge(self, reply: str) -> Judged[Trial]:
        """The fault is one of `telling.sentences` or one of `Trials`."""
        try:
            said = telling.sentences(reply, self._brief, self._names)
        except ReadingError as error:
            return Judged(self.nothing, error.fault, str(error))
        generator = self._ground.generator([(self._plan, instruction(self._brief, said))])
        return self._trials(self._card, generator, lambda build: "")

    def again(self, said: str) -> Message:
        """The turn that asks for better lines."""
        return Message("user", Template(prompt.text("instruction_repair.md")).substitute(said=said).strip())


def opening(brief: Brief, system: str) -> tuple[Message, ...]:
    """The messages that ask for an instruction; they depend on the brief alone, and not on the order of its goals."""
    told = "\n".join(f"{number}. {expanded(goal)}" for number, goal in enumerate(goals(brief), 1))
    task = Template(prompt.text("instruction_task.md")).substitute(about=brief.about, goals=told)
    rules = Template(prompt.text(f"instruction_{system}")).substitute(longest=telling.LONGEST)
    return Message("system", rules.strip()), Message("user", task.strip())


def _supported(found: Ground, trials: Trials) -> tuple[Plan, Brief]:
    """The first plan for which there is a world, found with words of the library, and the brief of it."""
    said = ""
    for plan in found.plans:
        known = brief(plan, found.domain, found.rng)
        try:
            run(found.generator([(plan, instruct(known, found.rng))], _TRIES), trials.sandboxes)
        except GeneratorError as error:
            said = str(error)
            continue
        return plan, known
    raise GeneratorError(f"none of {len(found.plans)} plans could be made a task: {said}")
