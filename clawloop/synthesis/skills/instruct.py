"""Writing an instruction behind the information barrier (paper, 4.1).

What the writer is handed is a `Brief`: the goal state and the names of the initial parameters. It is written before any
world exists, so it can hold no record; and a brief has no place for a tool, an order of actions or a branch.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from string import Formatter


@dataclass(frozen=True, slots=True)
class Parameter:
    """An initial parameter, by the name of its gap: the world fills it."""

    name: str


@dataclass(frozen=True, slots=True)
class Reference:
    """A background record, referred to and not told: a phrase, what kind of thing it is, and what its gaps mean."""

    kind: str
    phrase: str
    gaps: Mapping[str, "Parameter | Reference"]


@dataclass(frozen=True, slots=True)
class Goal:
    """A state that is to hold in the end: a phrase, and what its gaps mean."""

    phrase: str
    gaps: Mapping[str, Parameter | Reference]


@dataclass(frozen=True, slots=True)
class Brief:
    """All that the writer of an instruction knows: what the records are about, and the goals, in no order."""

    about: str
    goals: tuple[Goal, ...]


def instruct(brief: Brief, rng: random.Random) -> str:
    """An instruction with gaps {like_this} for initial parameters. Goals stand in an order drawn by `rng`."""
    told = list(brief.goals)
    rng.shuffle(told)
    openings = _lines("openings.txt")
    first, *others = (_spoken(goal, said=[]) for goal in told)
    sentences = [rng.choice(openings).replace("<goal>", first)]
    sentences += [rng.choice(_lines("further.txt")).replace("<goal>", goal) for goal in others]
    return instruction(brief, sentences)


def instruction(brief: Brief, sentences: Sequence[str]) -> str:
    """An instruction with these sentences for the goals of a brief."""
    return " ".join([brief.about, *_lines("setting.txt"), *sentences])


def expanded(goal: Goal) -> str:
    """A goal as one phrase, in which every reference is told in full."""
    return _spoken(goal, None)


def goals(brief: Brief) -> list[Goal]:
    """The goals of a brief in an order that tells nothing of how they came about: that of their phrases."""
    return sorted(brief.goals, key=expanded)


def phrases(meant: Goal | Reference) -> Iterator[str]:
    """The phrases of all that a goal refers to, directly or not."""
    for inner in meant.gaps.values():
        if isinstance(inner, Reference):
            yield inner.phrase
            yield from phrases(inner)


def _spoken(goal: Goal, said: list[Reference] | None) -> str:
    """A goal in words; what is in `said` is only referred back to, and what is told joins it. None tells all."""

    def fill(phrase: str, gaps: Mapping[str, Parameter | Reference]) -> str:
        parts = []
        for text, gap, _, _ in Formatter().parse(phrase):
            parts.append(text)
            if gap is None:
                continue
            meant = gaps[gap]
            if isinstance(meant, Parameter):
                parts.append("{" + meant.name + "}")
            elif said is not None and meant in said:
                parts.append(f"that {meant.kind}")
            else:
                parts.append(fill(meant.phrase, meant.gaps))
                if said is not None:
                    said.append(meant)
        return "".join(parts)

    return fill(goal.phrase, goal.gaps)


@cache
def _lines(name: str) -> tuple[str, ...]:
    return tuple(files("clawloop.synthesis.skills").joinpath(name).read_text().splitlines())
