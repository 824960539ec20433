"""`author: library` for cards of the domain route: plans grounded in a domain, and a program that finds a world.

The program is the plans, the domain and `ground.py.txt`: it seeds a database, draws the initial parameters, plays the
gold trajectory and compiles the final state into predicates (paper, 4.1).
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from clawloop.synthesis.generator import GeneratorError
from clawloop.synthesis.skills.domain import Domain, Sources, load, named
from clawloop.synthesis.skills.ground import Found, Given, Plan, plans
from clawloop.synthesis.skills.instruct import Brief, Goal, Parameter, Reference, instruct
from clawloop.synthesis.skills.materialise import materialise
from clawloop.synthesis.skills.observed import PROGRAMS, shape, text
from clawloop.synthesis.skills.table import source
from clawloop.types import Card, Generator

TRIES = 2000
_PLANS = 16
_SERVER_S, _RESTARTS_S = 60.0, 240.0  # for a start on a busy machine; where each call needs a server of its own


@dataclass(frozen=True, slots=True)
class Ground:
    """A card's domain and the plans that it may become; `rng` draws the words for them."""

    card: Card
    domain: Domain
    plans: tuple[Plan, ...]
    rng: random.Random

    def generator(self, told: Sequence[tuple[Plan, str]], tries: int = TRIES) -> Generator:
        """The program that finds a world for one of some plans, each with its instruction.

        Args:
            told: plans with instructions, in which {gaps} stand for the initial parameters.
            tries: draws of worlds and parameters before it gives up.
        """
        steps = [_plan(plan, self.domain, said) for plan, said in told]
        growth, level = self.card.growth, self.card.level
        spec = _material(self.domain) | {"plans": steps, "tries": tries, "growth": {}}
        grown = ""
        if growth:
            dirt = min(max(level - 2, 1), 2) if "dirtiness" in growth else 0
            spec["growth"] = {"hops": "multi_hop" in growth, "dirt": dirt}
            grown = _text("requests.py.txt")
        server = self.domain.server
        below = "".join(map(text, PROGRAMS)) if server else _here()
        verify = text("documents.py.txt") + _text("state.py.txt")
        head = f"SPEC = {spec!r}\nSERVER = {dict(server)!r}\nVERIFY = {verify!r}\n"
        program = f"{head}{below}{grown}{_text('ground.py.txt')}"
        if not server:
            return Generator(program, self.card.seed)
        return Generator(program, self.card.seed, _SERVER_S if server["rereads"] else _RESTARTS_S)


def ground(card: Card, folders: Sequence[str]) -> Ground:
    """The plans of a card of the domain route.

    Args:
        card: its capability is domain/skill.
        folders: domains of your own.

    Raises:
        GeneratorError: the domain or the skill is not there, or its tools carry no graph of the card's level.
    """
    places = named(folders)
    if card.domain not in places:
        raise GeneratorError(f"there is no domain {card.domain!r}; name its folder in routine.domain.folders.")
    domain = load(places[card.domain])
    wanted = card.capability.partition("/")[2]
    if not (skill := [skill for skill in domain.skills if skill.name == wanted]):
        raise GeneratorError(f"the domain {domain.name} has no skill {wanted!r}.")
    rng = random.Random(f"{card.seed}/{card.capability}/plans")
    found = plans(domain, skill[0], card.level, _PLANS, rng)
    if not found:
        raise GeneratorError(f"the tools of {domain.name} carry no task graph of level {card.level}.")
    return Ground(card, domain, found, rng)


def grounded(card: Card, folders: Sequence[str]) -> Generator:
    """The generator of a card of the domain route, with instructions put together from the domain's phrases.

    Raises:
        GeneratorError: as `ground`.
    """
    found = ground(card, folders)
    return found.generator([(plan, instruct(brief(plan, found.domain, found.rng), found.rng)) for plan in found.plans])


def brief(plan: Plan, domain: Domain, rng: random.Random) -> Brief:
    """What the writer of the instruction may know of a plan: the goals and the names of the initial parameters."""

    def meant(value: Given | Found) -> Parameter | Reference:
        if isinstance(value, Given):
            return Parameter(value.name)
        step = plan.steps[value.step]
        phrase = domain.lookups[step.tool].phrases[value.field]
        gaps = {name: meant(other) for name, other in step.arguments.items()}
        return Reference(value.field.replace("_", " "), phrase, gaps)

    steps = [plan.steps[index] for index in plan.goals]
    goals = [
        Goal(rng.choice(domain.goals[step.tool]), {name: meant(value) for name, value in step.arguments.items()})
        for step in steps
    ]
    return Brief(domain.about, tuple(goals))


def decisions(plan: Plan, domain: Domain) -> list[tuple[str, str]]:
    """The hidden decisions of a plan, declared: which of several records is meant, when, and what may be removed."""
    told = list(domain.decisions)
    for index, step in enumerate(plan.steps):
        lookup = domain.lookups.get(step.tool)
        if lookup is None or not lookup.by:
            continue
        for field in sorted(_used(plan, index)):
            tie = "" if field == lookup.by else f"; of equals, the first {field} in ascending order"
            told.append((f"{field} by {lookup.by}", f"the {lookup.order} {lookup.by}{tie}"))
    told.append(("references", "meant as the records are before any change"))
    told.append(("obstacles", "; ".join(domain.remedies.values()) or "there are none"))
    told.append(("scope", "no other record changes"))
    return list(dict.fromkeys(told))


def _used(plan: Plan, index: int) -> set[str]:
    values = [value for step in plan.steps for value in step.arguments.values()]
    return {value.field for value in values if isinstance(value, Found) and value.step == index}


def _plan(plan: Plan, domain: Domain, said: str) -> dict[str, Any]:
    steps = [
        {
            "tool": step.tool,
            "args": {
                name: ("given", value.name) if isinstance(value, Given) else ("found", value.step, value.field)
                for name, value in step.arguments.items()
            },
            "used": sorted(_used(plan, index)),
            "change": action.change,
            "blocked": action.blocked,
            "remedies": step.remedies,
        }
        for index, (step, action) in enumerate(zip(plan.steps, plan.graph.actions, strict=True))
    ]
    return {"steps": steps, "instruction": said, "decisions": [list(one) for one in decisions(plan, domain)]}


def world_program(sources: Sources) -> str:
    """The module of a domain's worlds: what fills, copies and reads a database, draws parameters and calls tools."""
    return f"SPEC = {_world(sources)!r}\n{_here()}"


def _here() -> str:
    """What works on the database of a domain whose tools are functions."""
    return text("documents.py.txt") + text("draw.py.txt") + _text("database.py.txt")


def _world(domain: Domain | Sources) -> dict[str, Any]:
    params = {param for tool in domain.tools.values() for param in tool.params}
    sources = {param: source(domain.tables, domain.values, param) for param in sorted(params)}
    return {
        "schema": domain.schema,
        "tools": domain.code,
        "world": domain.world,
        "tables": shape(domain.tables),
        "sources": {p: ("values", domain.values[p]) if at == ("values",) else at for p, at in sources.items() if at},
    }


@cache
def _material(domain: Domain) -> dict[str, Any]:
    """What the program needs of a domain, with its skills as files."""
    skills = domain.skills
    return _world(domain) | {
        "rows": {name: tool.rows for name, tool in domain.tools.items()},
        "params": {name: tuple(tool.params) for name, tool in domain.tools.items()},
        "lookups": {name: (lookup.by, lookup.order) for name, lookup in domain.lookups.items()},
        "skills": {name: skill.name for skill in skills for name in skill.tools},
        "files": {path: text for skill in skills for path, text in materialise(domain, skill).items()},
    }


@cache
def _text(name: str) -> str:
    return files("clawloop.synthesis.author.library").joinpath(name).read_text()
