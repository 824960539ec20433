"""Grounding an abstract task graph in a domain (paper, 4.1): which tool does what, and what it is handed.

The coverage check is here: a graph with an action that no tool of the skills can do gives no plan.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from clawloop.synthesis.skills.cluster import Skill
from clawloop.synthesis.skills.domain import Domain, Sources
from clawloop.synthesis.skills.read import Tool
from clawloop.synthesis.skills.structure import TaskGraph, sample

_STEPS, _TRIES = 2000, 80


@dataclass(frozen=True, slots=True)
class Given:
    """An initial parameter: its name in the instruction, and the parameter that it is a value of."""

    name: str
    param: str


@dataclass(frozen=True, slots=True)
class Found:
    """A field of what an earlier step finds."""

    step: int
    field: str


@dataclass(frozen=True, slots=True)
class Step:
    """One action of the graph as a call of a tool. `remedies` are the changes that may unblock it."""

    tool: str
    arguments: Mapping[str, Given | Found]
    remedies: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """The gold trajectory before there is a world: steps in order. Those whose tool changes something are the goals."""

    graph: TaskGraph
    steps: tuple[Step, ...]

    @property
    def goals(self) -> tuple[int, ...]:
        """Which steps are goals."""
        return tuple(index for index, action in enumerate(self.graph.actions) if action.change)


def plans(domain: Domain, skill: Skill, level: int, count: int, rng: random.Random) -> tuple[Plan, ...]:
    """Up to `count` plans of a level; none where the skills of the domain cannot carry that level."""
    found: list[Plan] = []
    for _ in range(_TRIES):
        plan = ground(sample(level, rng), domain, skill, rng)
        if plan is not None and plan not in found:
            found.append(plan)
        if len(found) == count:
            break
    return tuple(found)


def source(domain: Domain | Sources, param: str) -> tuple[str, ...] | None:
    """Where a value of a parameter is drawn from: a table and its column, `values`, or nowhere (None)."""
    if param in domain.values:
        return ("values",)
    keyed = [table.name for table in domain.tables.values() if table.key == (param,)]
    having = [table.name for table in domain.tables.values() if param in table.columns]
    found = (keyed or having)[:1]
    return (found[0], param) if found else None


def remedies(domain: Domain, tool: Tool) -> tuple[str, ...]:
    """Those of the domain's remedies that write what a tool reads, and need no more than the tool is handed."""
    return tuple(
        name
        for name in domain.remedies
        if name != tool.name
        and set(domain.tools[name].params) <= set(tool.params)
        and set(domain.tools[name].writes) & set(tool.reads)
    )


def ground(graph: TaskGraph, domain: Domain, skill: Skill, rng: random.Random) -> Plan | None:
    """A plan whose first goal is a change of the skill and whose other tools are any of the domain; None if uncovered.

    A lookup is used for a field that it finds and a phrase speaks of. Within what belongs together one name means one
    thing, so that "the time" of two tools is one time.
    """
    budget = [_STEPS]
    for tools, supply in _assign(len(graph.actions) - 1, graph, domain, skill, {}, {}, rng, budget):
        if (plan := _plan(graph, domain, tools, supply)) is not None:
            return plan
    return None


Supply = Mapping[int, Mapping[str, int]]


def _assign(
    index: int,
    graph: TaskGraph,
    domain: Domain,
    skill: Skill,
    tools: dict[int, Tool],
    supply: dict[int, dict[str, int]],
    rng: random.Random,
    budget: list[int],
) -> Iterator[tuple[dict[int, Tool], Supply]]:
    """Tools for the actions from `index` down to the first; users of a result come before it."""
    if index < 0:
        yield tools, supply
        return
    action = graph.actions[index]
    users = [later for later, other in enumerate(graph.actions) if index in other.after]
    first = index == next(i for i, other in enumerate(graph.actions) if other.change)
    names = sorted(domain.goals if action.change else domain.lookups)
    rng.shuffle(names)
    for name in names:
        tool = domain.tools[name]
        budget[0] -= 1
        if budget[0] < 0:
            return
        if (first and name not in skill.tools) or len(tool.params) < len(action.after):
            continue
        if action.blocked and not remedies(domain, tool):
            continue
        for fields in _fields_for(users, tool, domain, tools, supply, rng):
            handed = {user: {**supply.get(user, {}), field: index} for user, field in zip(users, fields, strict=True)}
            yield from _assign(
                index - 1, graph, domain, skill, {**tools, index: tool}, {**supply, **handed}, rng, budget
            )


def _fields_for(
    users: list[int], tool: Tool, domain: Domain, tools: Mapping[int, Tool], supply: Supply, rng: random.Random
) -> list[tuple[str, ...]]:
    """One field of the tool for each user of its result: a parameter of the user that nothing supplies yet."""
    spoken = domain.lookups[tool.name].phrases if tool.name in domain.lookups else {}
    ways: list[tuple[str, ...]] = [()]
    for user in users:
        fit = [f for f in tool.gives if f in spoken and f in tools[user].params and f not in supply.get(user, {})]
        rng.shuffle(fit)
        ways = [(*way, field) for way in ways for field in fit]
    return ways


def _plan(graph: TaskGraph, domain: Domain, tools: Mapping[int, Tool], supply: Supply) -> Plan | None:
    parts = _parts(graph)
    meaning: dict[tuple[int, str], Given | Found] = {}
    names: dict[str, int] = {}
    steps: list[Step] = []
    for index, action in enumerate(graph.actions):
        arguments: dict[str, Given | Found] = {}
        for param in tools[index].params:
            place, before = (parts[index], param), supply.get(index, {}).get(param)
            wanted: Given | Found | None = Found(before, param) if before is not None else None
            known = meaning.get(place)
            if known is not None and wanted is None and isinstance(known, Given):
                wanted = known
            if known is None and wanted is None:
                if source(domain, param) is None:
                    return None
                names[param] = names.get(param, 0) + 1
                wanted = Given(param if names[param] == 1 else f"{param}_{names[param]}", param)
            if wanted is None or meaning.setdefault(place, wanted) != wanted:
                return None
            arguments[param] = wanted
        if len(set(supply.get(index, {}).values())) != len(action.after):
            return None
        ways = remedies(domain, tools[index]) if action.blocked else ()
        steps.append(Step(tools[index].name, arguments, ways))
    calls = [(step.tool, tuple(sorted((name, str(value)) for name, value in step.arguments.items()))) for step in steps]
    return Plan(graph, tuple(steps)) if len(set(calls)) == len(calls) else None


def _parts(graph: TaskGraph) -> list[int]:
    """For each action, the lowest index of those that it is connected with by results."""
    part = list(range(len(graph.actions)))
    for index, action in enumerate(graph.actions):
        joined = {part[index], *(part[before] for before in action.after)}
        part = [min(joined) if p in joined else p for p in part]
    return part
