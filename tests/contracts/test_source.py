"""Every part of conf/source: batches of what the agent did, from the seed alone, on a policy that is its own."""

from typing import Any

import pytest
import torch
import yaml
from transformers import LlamaConfig, LlamaForCausalLM

from clawloop.build.part import part
from clawloop.config.folders import data_dir, options
from clawloop.training.advantage import GroupRelative
from clawloop.training.reference import Weights, standing_in
from clawloop.training.scheduler.fixed import Fixed
from clawloop.training.sequences import Drawn, Sequence, Wanted, groups
from clawloop.types import RolloutGroup, Task, TaskPool, TokenTrace
from tests.bare import bare, trial

TASKS = tuple(bare(f"t{i}") for i in range(6))


def group(task: Task, word: int = 7) -> RolloutGroup:
    made = []
    for j in range(4):
        trace = TokenTrace((1, 2, word, j), (0, 0, 1, 1), (0.0, 0.0, -1.0, -2.0))
        made.append(trial(task.id, j, float(j % 2), trace))
    return RolloutGroup(task, tuple(made))


POOL = TaskPool(tuple(group(task) for task in TASKS))


class Agent:
    """Weights in this process, and a name."""

    temperature = 1.0

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model: Any = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=16, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1,
                num_key_value_heads=1,
            )
        )  # fmt: skip
        self.names: list[str] = []

    def renamed(self, version: str) -> "Agent":
        self.names.append(version)
        return self


@pytest.fixture(params=options("source"))
def make(request: pytest.FixtureRequest) -> Any:
    settings = yaml.safe_load((data_dir("conf") / "source" / f"{request.param}.yaml").read_text())
    own = {"rollouts": 4} if "rollouts" in settings else {}

    def roll_out(policy: Any, tasks: tuple[Task, ...], n: int, at: str, harness: str) -> tuple[RolloutGroup, ...]:
        assert n == 4 and harness == "shell"
        return tuple(group(task, 8 + len(at) % 3) for task in tasks)

    return lambda seed=0: part(
        settings | own, scheduler=Fixed(), roll_out=roll_out, harness_of=lambda id: "shell", trajectories=8, seed=seed
    )


def wanted(seed: int = 0) -> Wanted:
    def draw(pool: TaskPool) -> Drawn:
        return groups(pool, 100, GroupRelative(1e-4))

    return Wanted(draw, lambda sequences, entered: sequences, 8, 2, f"{seed}/1/grpo")


def batches(source: Any, pool: TaskPool = POOL, seed: int = 0) -> list[list[Sequence]]:
    opened, detail = source.open(Agent(), pool, 1, wanted(seed))
    found = []
    for batch in opened:
        assert all(isinstance(number, float) for number in source.before_step(None).values())
        found.append(batch)
    assert len(found) <= len(opened) and all(isinstance(key, str) for key in detail)
    return found


def test_batches_are_of_the_size_that_is_wanted_and_hold_what_was_weighed(make: Any) -> None:
    found = batches(make())
    assert len(found) >= 6
    for batch in found:
        assert len(batch) == 8
        assert all(one.actions and one.advantage and one.logprobs for one in batch)


def test_no_tasks_no_batches(make: Any) -> None:
    assert batches(make(), TaskPool(())) == []


def test_the_seed_decides_the_order_and_nothing_else_does(make: Any) -> None:
    assert batches(make(), seed=0) == batches(make(), seed=0)
    one, other = (batches(make(seed), seed=seed) for seed in (0, 1))
    assert one != other


def test_the_weights_are_left_alone(make: Any) -> None:
    agent, source = Agent(), make()
    before = [p.clone() for p in agent.model.parameters()]
    for _ in source.open(agent, POOL, 1, wanted())[0]:
        source.before_step(None)
    assert all(torch.equal(old, new) for old, new in zip(before, agent.model.parameters(), strict=True))


def test_what_entered_the_stage_is_there_for_the_reference_at_every_step(make: Any) -> None:
    agent, source, seen = Agent(), make(), list[float]()
    weight = agent.model.lm_head.weight

    def prepare(sequences: tuple[Sequence, ...], entered: Weights | None) -> tuple[Sequence, ...]:
        with standing_in(agent.model, entered):
            seen.append(float(weight.detach()[0, 0]))
        return sequences

    plain, entered = wanted(), float(weight.detach()[0, 0])
    asked = Wanted(plain.draw, prepare, plain.batch_size, plain.epochs, plain.seed)
    for step, _ in enumerate(source.open(agent, POOL, 1, asked)[0], 1):
        source.before_step(None)
        assert float(weight.detach()[0, 0]) == pytest.approx(entered + step - 1)
        with torch.no_grad():
            weight += 1.0
    assert set(seen) == {entered}


def test_what_is_carried_over_can_be_put_back(make: Any) -> None:
    source = make()
    batches(source)
    other = make()
    other.restore(source.state())
    assert other.state() == source.state()
