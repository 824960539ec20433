"""A model small enough to train in a test, and a policy and a tracker around it."""

import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from clawloop.policy.hf import HfPolicy
from clawloop.types import RolloutGroup, TaskPool, TokenTrace
from tests.bare import bare, trial


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    """Products this small are slower on several threads than on one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class FakePolicy:
    """What training needs of a policy: weights in this process."""

    def __init__(self, seed: int = 0, temperature: float = 1.0) -> None:
        torch.manual_seed(seed)
        config = LlamaConfig(
            vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
            num_key_value_heads=1, max_position_embeddings=128, tie_word_embeddings=True, initializer_range=0.3,
        )  # fmt: skip
        self.model: Any = LlamaForCausalLM(config).eval()
        self.temperature, self.version = temperature, "theta_0"

    def renamed(self, version: str) -> Self:
        self.version = version
        return self

    def weights(self) -> torch.Tensor:
        return torch.cat([p.detach().flatten().clone() for p in self.model.parameters()])

    def logprobs(self, ids: tuple[int, ...]) -> tuple[float, ...]:
        """By position, the log-probability of its token as this policy samples; 0 at the first."""
        with torch.no_grad():
            table = torch.log_softmax(self.model(torch.tensor([ids])).logits[0] / self.temperature, -1)
        return (0.0, *(float(table[t - 1, ids[t]]) for t in range(1, len(ids))))


class FakeTracker:
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, int, dict[str, float]]] = []
        self.events: dict[str, Mapping[str, object]] = {}

    def log(self, axis: str, step: int, values: Mapping[str, float]) -> None:
        self.steps.append((axis, step, dict(values)))

    def event(self, name: str, detail: Mapping[str, object]) -> None:
        self.events[name] = detail

    def progress(self, phase: str, done: int, total: int) -> None:
        raise AssertionError("training reports no progress of its own")

    def close(self, exit_code: int) -> None:
        raise AssertionError("who opened a tracker closes it")

    def series(self, name: str) -> list[float]:
        return [values[name] for _, _, values in self.steps]


@pytest.fixture
def policy() -> FakePolicy:
    return FakePolicy()


@pytest.fixture
def another() -> FakePolicy:
    """The same weights as `policy` in another object."""
    return FakePolicy()


@pytest.fixture
def tracker() -> FakeTracker:
    return FakeTracker()


@pytest.fixture(scope="session")
def practice() -> TaskPool:
    """Four tasks with eight trials of different lengths each, three of them rewarded."""
    noise = random.Random(0)
    groups = []
    for name in "abcd":
        rollouts = []
        for j in range(8):
            ids = tuple(noise.randrange(10, 60) for _ in range(noise.randrange(6, 12)))
            trace = TokenTrace(ids, (0,) * 4 + (1,) * (len(ids) - 4), (-3.0,) * len(ids))
            rollouts.append(trial(name, j, float(j < 3), trace))
        groups.append(RolloutGroup(bare(name), tuple(rollouts)))
    return TaskPool(tuple(groups))


@pytest.fixture
def network(small_model: Path) -> HfPolicy:
    """A policy with a tokenizer, small enough to train."""
    return HfPolicy(small_model, context=256)
