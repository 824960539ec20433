"""training/source: where a step's groups come from, and that they are of the policy as it is at that step."""

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

from clawloop.training.grpo import Grpo
from clawloop.training.schedule import Constant
from clawloop.training.scheduler.bandit import Bandit
from clawloop.training.scheduler.fixed import Fixed
from clawloop.training.scheduler.mixed import Mixed
from clawloop.training.scheduler.round_robin import RoundRobin
from clawloop.training.sequences import Sequence, learnability
from clawloop.training.source.fresh import Fresh
from clawloop.training.source.replay import Replay
from clawloop.training.source.supply import Supplied, Supply
from clawloop.types import Outcome, Rollout, RolloutGroup, Stop, Task, TaskPool, TokenTrace, Trajectory
from tests.bare import bare
from tests.training.objective import OBJECTIVE

NAMES = ("shell", "xml", "react")
GOOD, BAD = 11, 12


TASKS = tuple(bare(f"t{i}") for i in range(10))


def group(one: Task, rewards: tuple[float | None, ...]) -> RolloutGroup:
    rollouts = (Rollout(one.id, j, Outcome.SCORED, reward, None, None) for j, reward in enumerate(rewards))
    return RolloutGroup(one, tuple(rollouts))


def supply(tasks: tuple[Task, ...] = TASKS, rounds: int = 4, staleness: int = 2, batch: int = 3) -> Supply:
    return Supply(tasks, lambda id: NAMES[int(id[1:]) % 3], batch, rounds, staleness, "seed")


class Players:
    """Plays what it is asked; the groups of the first so many are unanimous."""

    def __init__(self, dull: int = 0) -> None:
        self.dull, self.asked = dull, list[tuple[str, str]]()

    def __call__(self, harness: str, tasks: tuple[Task, ...]) -> tuple[RolloutGroup, ...]:
        made = []
        for one in tasks:
            self.asked.append((harness, one.id))
            made.append(group(one, (1.0, 1.0) if len(self.asked) <= self.dull else (1.0, 0.0)))
        return tuple(made)


def test_a_batch_is_of_the_harness_that_was_chosen_and_each_has_its_own_shuffle_of_the_same_tasks() -> None:
    drawn, order = supply(), dict[str, list[str]]()
    for step, name in enumerate(NAMES * 3, 1):
        play = Players()
        got = drawn.take((name,), step, play)
        assert {made.harness for made in got.groups} == {name} == {harness for harness, _ in play.asked}
        assert [made.group.task.id for made in got.groups] == [id for _, id in play.asked]
        order.setdefault(name, []).extend(id for _, id in play.asked)
    assert len({tuple(ids) for ids in order.values()}) == 3
    assert all(len(set(ids)) == 9 for ids in order.values())  # no task twice before all were there


def test_a_mixed_batch_is_of_a_shuffle_over_task_and_harness() -> None:
    drawn, play = supply(), Players()
    batches = [drawn.take(NAMES, step, play).groups for step in range(1, 11)]
    assert len(set(play.asked)) == 30 == len(play.asked)
    assert any(len({made.harness for made in batch}) > 1 for batch in batches)


def test_where_no_harness_is_chosen_each_task_stays_in_its_own() -> None:
    play = Players()
    supply(batch=10).take((), 1, play)
    assert sorted(play.asked) == sorted((NAMES[int(one.id[1:]) % 3], one.id) for one in TASKS)


def test_unanimous_groups_are_dropped_and_more_are_played_up_to_the_cap() -> None:
    play = Players(dull=8)
    got = supply(rounds=10).take(("shell",), 1, play)
    assert got.played == len(set(play.asked)) == len(play.asked) == 10  # every task, and none twice in a step
    assert [made.group.task.id for made in got.groups] == [id for _, id in play.asked[8:]]
    assert got.unanimous == 8
    assert supply(rounds=2).take(("shell",), 1, Players(dull=10)) == Supplied((), 6, 6, 0, 0)


def test_a_group_without_rewards_is_no_group() -> None:
    got = supply(rounds=1).take(("shell",), 1, lambda _, tasks: tuple(group(one, (None, None)) for one in tasks))
    assert (got.groups, got.unanimous) == ((), 3)


def test_what_is_left_over_waits_for_the_next_step_with_that_harness_and_not_too_long() -> None:
    drawn = supply(staleness=2)
    first = drawn.take(("shell",), 1, Players(dull=1))
    assert (first.played, first.unanimous, len(first.groups), first.stashed) == (6, 1, 3, 2)
    other = drawn.take(("xml",), 2, Players())
    assert other.stashed == 0 and {made.step for made in other.groups} == {2}
    third = drawn.take(("shell",), 3, Players(dull=1))
    assert [made.step for made in third.groups] == [1, 1, 3] and (third.played, third.stashed) == (3, 1)
    used = [made.group.task.id for made in (*first.groups, *third.groups[:2])]
    assert len(set(used)) == 5
    late = drawn.take(("shell",), 6, Players())
    assert late.stale == 1 and {made.step for made in late.groups} == {6}


def test_learnability_is_the_mean_over_groups_of_the_mean_over_trajectories() -> None:
    def sequences(name: str, *advantages: float) -> list[Sequence]:
        return [Sequence(f"{name}#{j}", (1, 2), (0, 1), None, a) for j, a in enumerate(advantages)]

    groups = [sequences("a", 1.0, -0.5), sequences("b", 0.25, -0.25, -0.25), []]
    assert learnability(groups) == pytest.approx((0.75 + 0.25) / 2)
    assert learnability([]) == 0.0


class World:
    """Plays trials by the policy's own two-way choice between GOOD and BAD, and notes whose weights it saw."""

    def __init__(self, policy: Any) -> None:
        self.policy, self.played = policy, list[tuple[str, str, str, str]]()
        self.weights: dict[str, torch.Tensor] = {}

    def __call__(self, policy: Any, tasks: tuple[Task, ...], n: int, at: str, harness: str) -> tuple[RolloutGroup, ...]:
        assert torch.equal(self.weights.setdefault(at, self.policy.weights()), self.policy.weights())
        made = []
        for one in tasks:
            rollouts = []
            prompt = (5, 6, 20 + int(one.id[1:]), 40 + len(harness))
            pair = [policy.logprobs((*prompt, token, 1))[4] for token in (GOOD, BAD)]
            share = float(torch.softmax(torch.tensor(pair), 0)[0])
            for j in range(n):
                good = random.Random(f"{at}/{harness}/{one.id}/{j}").random() < share
                ids = (*prompt, GOOD if good else BAD, 1)
                trace = TokenTrace(ids, (0, 0, 0, 0, 1, 1), policy.logprobs(ids))
                trajectory = Trajectory(one.id, harness, policy.version, (), (trace,), Stop.SUBMITTED, 0.0)
                rollouts.append(Rollout(one.id, j, Outcome.SCORED, float(good), trajectory, None))
                self.played.append((at, harness, one.id, policy.version))
            made.append(RolloutGroup(one, tuple(rollouts)))
        return tuple(made)


POOL = TaskPool(tuple(group(one, (1.0, 0.0)) for one in TASKS))


def fresh(world: Any, scheduler: Any = None, **changes: Any) -> Fresh:
    fixed: dict[str, Any] = {"steps": 6, "rollouts": 8, "rounds": 3, "staleness": 2, "trajectories": 16}
    harness_of: Callable[[str], str] = lambda id: NAMES[int(id[1:]) % 3]  # noqa: E731
    return Fresh(scheduler=scheduler or Fixed(), roll_out=world, harness_of=harness_of, **fixed | changes)


def grpo(source: Any, tracker: Any = None, **changes: Any) -> Grpo:
    fixed = {"lr": 1e-2, "epochs": 1, "batch_size": 16, "warmup": 0.0, "weight_decay": 0.0}
    return Grpo(source, **fixed | OBJECTIVE | {"schedule": Constant()} | changes, tracker=tracker)


def test_each_step_is_played_by_the_policy_that_the_step_before_left(policy: Any, tracker: Any) -> None:
    world = World(policy)
    grpo(fresh(world), tracker)(policy, POOL, 2)
    assert [step for _, step, _ in tracker.steps] == [1, 2, 3, 4, 5, 6]
    versions = {at: version for at, _, _, version in world.played}
    assert versions == {f"k2/grpo/step{t}": f"theta_2-grpo-{t - 1}" for t in range(1, 7)}
    assert len({tuple(weights.tolist()) for weights in world.weights.values()}) == 6
    on_policy = [age == 0 for age in tracker.series("age")]  # the others have groups from the stash
    assert [ratio == pytest.approx(1, abs=1e-4) for ratio in tracker.series("ratio")] == on_policy
    assert {True, False} == set(on_policy)
    assert tracker.series("groups") == [2.0] * 6
    assert policy.version == "theta_2-grpo"


def test_the_kl_is_to_the_policy_that_entered_the_stage(policy: Any, tracker: Any) -> None:
    grpo(fresh(World(policy)), tracker)(policy, POOL, 1)
    series = tracker.series("kl")
    assert series[0] == pytest.approx(0, abs=1e-6)
    assert series[-1] > 1e-4
    assert tracker.steps[0][2]["drift"] == pytest.approx(0, abs=1e-4)


def test_the_agent_learns_from_its_fresh_rollouts(policy: Any, tracker: Any) -> None:
    grpo(fresh(World(policy), RoundRobin(NAMES), steps=12, trajectories=32), tracker, batch_size=32)(policy, POOL, 1)
    ids = (5, 6, 20, 45)
    assert policy.logprobs((*ids, GOOD, 1))[4] - policy.logprobs((*ids, BAD, 1))[4] > 1.0


@pytest.mark.parametrize("kind", [Bandit, RoundRobin])
def test_a_step_is_of_one_harness_and_is_told_to_the_scheduler(kind: Any, policy: Any, tracker: Any) -> None:
    world = World(policy)
    scheduler = kind(NAMES)
    grpo(fresh(world, scheduler), tracker)(policy, POOL, 1)
    by_step: dict[str, set[str]] = {}
    for at, harness, *_ in world.played:
        by_step.setdefault(at, set()).add(harness)
    assert [by_step[f"k1/grpo/step{t}"] for t in range(1, 7)] == [{name} for name in NAMES * 2]
    assert all(0 < value < 2 for value in tracker.series("learnability"))
    if kind is Bandit:
        last = tracker.steps[-1][2]
        assert scheduler.state_dict()["visits"] == dict.fromkeys(NAMES, 2)
        assert {"cosine/xml/shell", "cosine/xml/react", "transferability/xml", "p/shell", "visits/xml"} <= last.keys()
        assert "transferability/shell" not in tracker.steps[0][2]


def test_the_gradient_is_seen_whole_and_before_it_is_clipped(policy: Any) -> None:
    seen: list[torch.Tensor] = []

    class Looks(Mixed):
        @staticmethod
        def sketch(harness: str, model: Any) -> dict[str, float]:
            seen.append(torch.cat([p.grad.flatten() for p in model.parameters()]).clone())
            return {}

    grpo(fresh(World(policy), Looks(NAMES), steps=1), max_grad_norm=1e-3, micro_tokens=1)(policy, POOL, 1)
    assert len(seen) == 1 and float(seen[0].norm()) > 1e-2


def test_a_step_without_a_group_changes_nothing_and_is_told(policy: Any, tracker: Any) -> None:
    def dull(policy: Any, tasks: Any, n: int, at: str, harness: str) -> Any:
        return tuple(group(one, (1.0,) * n) for one in tasks)

    start = policy.weights()
    scheduler = Bandit(NAMES)
    assert grpo(fresh(dull, scheduler), tracker)(policy, POOL, 1).version == "theta_1-grpo"
    assert torch.equal(policy.weights(), start) and not tracker.steps
    assert scheduler.state_dict()["visits"] == dict.fromkeys(NAMES, 2)


def test_no_tasks_no_steps(policy: Any, tracker: Any) -> None:
    grpo(fresh(None), tracker)(policy, TaskPool(()), 1)
    assert tracker.events["grpo/data"] == {"k": 1, "tasks": 0, "steps": 0} and not tracker.steps


def test_two_stages_in_one_go_and_with_a_stop_between_them_are_the_same(policy: Any, another: Any) -> None:
    whole, parts = World(policy), World(another)
    stage = grpo(fresh(whole, Bandit(NAMES, warmup=3)))
    for k in (1, 2):
        stage(policy, POOL, k)
    first = grpo(fresh(parts, Bandit(NAMES, warmup=3)))
    first(another, POOL, 1)
    second = grpo(fresh(parts, Bandit(NAMES, warmup=3)))
    second.restore(first.state())
    second(another, POOL, 2)
    assert parts.played == whole.played
    assert len({harness for at, harness, *_ in whole.played if at.startswith("k2")}) > 1
    assert torch.equal(policy.weights(), another.weights())


def test_what_cannot_be_is_refused_in_words(policy: Any) -> None:
    for scheduler in (Bandit(NAMES), Mixed(NAMES), RoundRobin(NAMES)):
        with pytest.raises(ValueError, match=f"{type(scheduler).__name__} chooses the harness of new rollouts"):
            Replay(scheduler)
    with pytest.raises(ValueError, match=r"batch_size is 12 trajectories, which .* set a multiple of 8"):
        fresh(None, trajectories=12)
    with pytest.raises(ValueError, match="source=fresh feeds grpo, and trainer leaves grpo out"):
        fresh(None, trajectories=0)


def test_ctrl_c_in_a_stage_is_ctrl_c(policy: Any) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        grpo(fresh(interrupted))(policy, POOL, 1)
