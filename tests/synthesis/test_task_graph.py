"""Structure comes first, then a domain, then words, each knowing only what it may."""

import dataclasses
import random
import typing
from collections.abc import Mapping

import pytest

from clawloop.synthesis.author.library.grounded import brief, decisions
from clawloop.synthesis.skills.cluster import Skill, cluster
from clawloop.synthesis.skills.domain import Domain, load, shipped
from clawloop.synthesis.skills.ground import Found, Given, Plan, ground, plans
from clawloop.synthesis.skills.instruct import Brief, Goal, Parameter, Reference, instruct
from clawloop.synthesis.skills.structure import Action, TaskGraph, sample

LOOK, CHANGE = Action(False), Action(True)


def then(*after: int, change: bool = False, blocked: bool = False) -> Action:
    return Action(change, after, blocked)


def test_features_are_those_of_the_structure() -> None:
    joined = TaskGraph((LOOK, then(0), then(0, 1, change=True), then(0, change=True, blocked=True)))
    assert (joined.lookups, joined.goals, joined.convergence, joined.branching) == (2, 2, 1, 1)
    assert (joined.long_range, joined.recovery) == (2, 1)
    assert joined.edges == ((0, 1, 0), (1, 2, 1), (1, 3, 2), (2, 3, 2), (1, 4, 3))


@pytest.mark.parametrize(
    ("actions", "level"),
    [
        ((CHANGE,), 0),
        ((LOOK, then(0, change=True)), 1),
        ((LOOK, then(0), then(1, change=True)), 2),
        ((then(change=True, blocked=True),), 2),
        ((LOOK, LOOK, then(0, 1, change=True)), 3),
        ((LOOK, LOOK, then(0, 1, change=True, blocked=True)), 4),
    ],
)
def test_the_features_define_the_level(actions: tuple[Action, ...], level: int) -> None:
    assert TaskGraph(actions).level == level


@pytest.mark.parametrize("level", range(5))
def test_a_sampled_graph_has_its_level_and_uses_every_result(level: int) -> None:
    graphs = [sample(level, random.Random(seed)) for seed in range(40)]
    for graph in graphs:
        assert graph.level == level
        used = {before for action in graph.actions for before in action.after}
        assert used == {index for index, action in enumerate(graph.actions) if not action.change}
        assert all(before < index for index, action in enumerate(graph.actions) for before in action.after)
    assert sample(level, random.Random(7)) == sample(level, random.Random(7))
    assert len(set(graphs)) > (0, 1, 4, 8, 20)[level]


def test_high_levels_recover_branch_converge_and_reach_back() -> None:
    graphs = [sample(4, random.Random(seed)) for seed in range(60)]
    for feature in ("recovery", "branching", "convergence", "long_range"):
        assert any(getattr(graph, feature) for graph in graphs), feature
    assert max(graph.goals for graph in graphs) == 3


def test_there_is_no_such_level() -> None:
    with pytest.raises(ValueError, match="a level of 0 to 4, not 5"):
        sample(5, random.Random(0))


@pytest.mark.parametrize("name", shipped())
@pytest.mark.parametrize("level", range(5))
def test_a_plan_is_covered_by_the_skills(name: str, level: int) -> None:
    domain = load(name)
    for skill in cluster(domain.tools):
        for plan in plans(domain, skill, level, 2, random.Random(f"{name}/{level}")):
            assert plan.graph.level == level
            assert plan.steps[plan.goals[0]].tool in skill.tools
            for index, (step, action) in enumerate(zip(plan.steps, plan.graph.actions, strict=True)):
                assert bool(domain.tools[step.tool].writes) == action.change
                assert set(step.arguments) == set(domain.tools[step.tool].params)
                found = [value for value in step.arguments.values() if isinstance(value, Found)]
                assert {value.step for value in found} == set(action.after)
                assert all(value.step < index for value in found)
                assert all(value.field in domain.tools[plan.steps[value.step].tool].gives for value in found)
                assert bool(step.remedies) == action.blocked


def test_coverage_rejects_what_the_skills_cannot_do() -> None:
    clinic = load("clinic")
    visits, rng = Skill("visits", ("book_visit",)), random.Random(0)
    blocked = TaskGraph((then(change=True, blocked=True),))
    long = TaskGraph((LOOK, then(0), then(1), then(1, 2, change=True)))
    assert ground(blocked, clinic, visits, rng) and ground(long, clinic, visits, rng)
    assert ground(blocked, dataclasses.replace(clinic, remedies={}), visits, rng) is None
    assert ground(long, without(clinic, "free_times", "visits_on"), visits, rng) is None
    assert ground(TaskGraph((CHANGE,)), clinic, Skill("none", ("find_clinicians",)), rng) is None


def without(domain: Domain, *names: str) -> Domain:
    return dataclasses.replace(domain, lookups={k: v for k, v in domain.lookups.items() if k not in names})


def test_one_name_means_one_thing_in_what_belongs_together() -> None:
    clinic, visits = load("clinic"), Skill("visits", ("book_visit",))
    for seed in range(30):
        plan = ground(TaskGraph((LOOK, then(0), then(0, 1, change=True))), clinic, visits, random.Random(seed))
        if plan is None:
            continue
        meant: dict[str, set[Given | Found]] = {}
        for step in plan.steps:
            for name, value in step.arguments.items():
                meant.setdefault(name, set()).add(value)
        assert all(len(values) == 1 for values in meant.values())


def a_plan(seed: int) -> tuple[Plan, Domain]:
    domain = load(shipped()[seed % len(shipped())])
    skills = cluster(domain.tools)
    return plans(domain, skills[seed % len(skills)], 4, 1, random.Random(seed))[0], domain


def kinds(of: object) -> set[object]:
    """Every type that a value of a type can hold, however deep."""
    found: set[object] = set()
    left = [of]
    while left:
        kind = left.pop()
        if kind in found:
            continue
        found.add(kind)
        left += list(typing.get_args(kind))
        if dataclasses.is_dataclass(kind) and isinstance(kind, type):
            left += list(typing.get_type_hints(kind).values())
    return found


def test_the_writer_of_instructions_is_handed_goals_and_names_of_parameters_and_nothing_else() -> None:
    hints = typing.get_type_hints(instruct)
    assert set(hints) == {"brief", "rng", "return"} and hints["brief"] is Brief
    classes = {kind for kind in kinds(Brief) if dataclasses.is_dataclass(kind)}
    assert classes == {Brief, Goal, Reference, Parameter}
    fields = {(k.__name__, field.name) for k in classes for field in dataclasses.fields(k)}  # type: ignore[union-attr, arg-type]
    assert fields == {
        ("Brief", "about"),
        ("Brief", "goals"),
        ("Goal", "phrase"),
        ("Goal", "gaps"),
        ("Reference", "kind"),
        ("Reference", "phrase"),
        ("Reference", "gaps"),
        ("Parameter", "name"),
    }
    plain = {kind for kind in kinds(Brief) if isinstance(kind, type) and kind not in classes}
    assert plain <= {str, Mapping, tuple, type(...)}


@pytest.mark.parametrize("seed", range(12))
def test_an_instruction_names_no_tool_and_no_remedy_and_has_a_gap_for_each_parameter(seed: int) -> None:
    plan, domain = a_plan(seed)
    text = instruct(brief(plan, domain, random.Random(seed)), random.Random(seed))
    assert not [name for name in domain.tools if "_" in name and name in text]
    given = {v.name for step in plan.steps for v in step.arguments.values() if isinstance(v, Given)}
    assert {gap for gap in given if "{" + gap + "}" in text} == given
    assert text.format_map(dict.fromkeys(given, "")).count("{") == 0


def test_what_was_said_once_is_that_one() -> None:
    shelf = Reference("shelf", "the shelf of {book}", {"book": Parameter("book")})
    goal = Goal("{book} lies on {shelf}, {shelf} is clean", {"book": Parameter("book"), "shelf": shelf})
    text = instruct(Brief("Books.", (goal,)), random.Random(1))
    assert "{book} lies on the shelf of {book}, that shelf is clean" in text and text.startswith("Books. ")


def test_the_contract_declares_which_record_is_meant_and_what_may_be_removed() -> None:
    clinic = load("clinic")
    graph = TaskGraph((LOOK, then(0, change=True)))
    plan = ground(
        graph, without(clinic, *(set(clinic.lookups) - {"drugs_for"})), Skill("x", ("prescribe",)), random.Random(0)
    )
    assert plan is not None
    told = dict(decisions(plan, clinic))
    assert told["drug by price"] == "the lowest price; of equals, the first drug in ascending order"
    assert "a consent that is missing is recorded" in told["obstacles"]
    assert told["money"] == "amounts are whole cents" and "before any change" in told["references"]
