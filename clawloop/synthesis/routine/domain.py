"""Domain-grounded synthesis (paper, 4.1): tasks from the skills of executable domains."""

import random
from collections.abc import Mapping, Sequence
from functools import cache

from clawloop.synthesis.shares import shares, turns, weight
from clawloop.synthesis.skills.domain import Domain, load, named
from clawloop.synthesis.skills.ground import plans
from clawloop.types import Card, DiagnosisReport

LEVELS = range(5)


class DomainGrounded:
    """Draws cards over the skills of domains; a capability is domain/skill, its level that of the task graph.

    A skill whose domain cannot carry some level is no capability. Weak capabilities in F_{k-1} get more cards (see
    `shares.weight`); each gets one before any gets more.

    Args:
        names: domains to draw from; all that are not held for the probe if None.
        folders: domains of your own, each a folder of the form that `skills.domain` describes.
        held: draw from the domains that are held for the probe, whatever `names` says.
    """

    def __init__(self, names: Sequence[str] | None = None, folders: Sequence[str] = (), held: bool = False) -> None:
        places = named(folders)
        for name in names or ():
            if name not in places:
                raise ValueError(f"routine.domain.names: there is no domain {name!r}; there are {', '.join(places)}.")
        apart = [name for name, place in places.items() if load(place).held]
        free = [name for name in places if name not in apart]
        chosen = apart if held else free if names is None else list(dict.fromkeys(names))
        if both := sorted(set(chosen) & set(apart)) if not held else []:
            raise ValueError(f"routine.domain.names: {both[0]} is held for the probe; leave it out.")
        if not chosen:
            raise ValueError("routine.domain.names must name at least one domain, or be null for all.")
        self._capabilities = tuple(f"{name}/{skill}" for name in chosen for skill in carrying(load(places[name])))

    @property
    def capabilities(self) -> tuple[str, ...]:
        """Names such as clinic/visits."""
        return self._capabilities

    def cards(self, count: int, report: DiagnosisReport, seed: int) -> tuple[Card, ...]:
        """`count` cards of level 0, decided by `seed`; capabilities take turns, so that any prefix is mixed too."""
        rng = random.Random(f"{seed}/domain")
        dealt = shares(count, {name: weight(name, report) for name in self._capabilities}, rng)
        return tuple(_card(name, rng.getrandbits(31)) for name in turns(dealt))


def _card(name: str, seed: int) -> Card:
    return Card(
        route="domain",
        capability=name,
        track="terminal",
        domain=name.partition("/")[0],
        level=0,
        form="state",
        seed=seed,
        lineage=f"{name}/{seed}",
    )


@cache
def carried(domain: Domain) -> Mapping[str, tuple[int, ...]]:
    """The levels for which task graphs can be grounded, by skill."""
    return {
        skill.name: tuple(
            level for level in LEVELS if plans(domain, skill, level, 1, random.Random(f"{skill.name}/{level}"))
        )
        for skill in domain.skills
    }


def carrying(domain: Domain) -> tuple[str, ...]:
    """The skills of a domain for which task graphs of every level can be grounded.

    Raises:
        ValueError: there is none.
    """
    skills = tuple(name for name, levels in carried(domain).items() if levels == tuple(LEVELS))
    if not skills:
        raise ValueError(
            f"the domain {domain.name} carries no task: its lookups find nothing that its goals take, or it has no "
            "remedies; see words.yaml."
        )
    return skills
