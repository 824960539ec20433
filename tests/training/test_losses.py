"""training: losses and gradients equal a plain per-token reading of the equations, however a batch is cut."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from clawloop.training import loss
from clawloop.training.logprobs import token_logprobs
from clawloop.training.packing import pack
from clawloop.training.source import Sequence

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def model() -> Any:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=128, tie_word_embeddings=True, initializer_range=0.3,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


def sequences(count: int = 7) -> list[Sequence]:
    g = torch.Generator().manual_seed(1)
    made = []
    for i in range(count):
        length = 6 + 5 * (i % 4)
        ids = tuple(torch.randint(0, 64, (length,), generator=g).tolist())
        mask = tuple(int(t >= 3 and (t % 5 != 4)) for t in range(length))
        noise = torch.randn(2, length, generator=g) * 0.3 - 4
        advantage = [1.2, -0.7, 0.4][i % 3]
        made.append(Sequence(f"s{i}", ids, mask, tuple(noise[0].tolist()), advantage, 1.0, tuple(noise[1].tolist())))
    return made


def plain_logprobs(model: Any, one: Sequence, temperature: float) -> dict[int, torch.Tensor]:
    """One sequence alone, every position, the whole vocabulary: slow and obvious."""
    table = torch.log_softmax(model(torch.tensor([one.ids])).logits[0] / temperature, -1)
    return {t: table[t - 1, one.ids[t]] for t in range(1, len(one.ids)) if one.mask[t]}


def plain_sft(model: Any, batch: list[Sequence]) -> torch.Tensor:
    found = [value for one in batch for value in plain_logprobs(model, one, 1.0).values()]
    return -sum(found, torch.tensor(0.0)) / len(found)


def plain_grpo(model: Any, batch: list[Sequence], temperature: float, clip: float, beta: float) -> torch.Tensor:
    total = torch.tensor(0.0)
    for one in batch:
        terms = []
        for t, logprob in plain_logprobs(model, one, temperature).items():
            ratio = torch.exp(logprob - one.logprobs[t])
            beyond = ratio > 1 + clip if one.advantage > 0 else ratio < 1 - clip
            edge = 1 + clip if one.advantage > 0 else 1 - clip
            gain = torch.tensor(edge * one.advantage) if beyond else ratio * one.advantage
            d = one.reference[t] - logprob
            terms.append(gain - beta * (torch.exp(d) - d - 1))
        total = total + sum(terms, torch.tensor(0.0)) / len(terms)
    return -total / len(batch)


def gradients(model: Any, value: Callable[[], None]) -> torch.Tensor:
    model.zero_grad()
    value()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


PARTS = {"one": [[i] for i in range(7)], "three": [[0, 1, 2], [3, 4, 5], [6]], "all": [list(range(7))]}


@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)
def test_sft_is_eq_1(model: Any, parts: list[list[int]]) -> None:
    batch = sequences()
    tokens = sum(one.actions for one in batch)

    def ours() -> None:
        for part in parts:
            packed = pack([batch[i] for i in part], [1 / tokens] * len(part), CPU)
            value = loss.sft(token_logprobs(model, packed), packed.weight_A)
            total.append(float(value.detach()))
            value.backward()

    total: list[float] = []
    mine = gradients(model, ours)
    theirs = gradients(model, lambda: plain_sft(model, batch).backward())
    assert math.isclose(sum(total), float(plain_sft(model, batch).detach()), rel_tol=1e-5)
    assert (mine - theirs).norm() < 1e-5 * theirs.norm()
    assert theirs.abs().max() > 1e-3


@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)
def test_grpo_is_eq_2_with_clip_and_kl(model: Any, parts: list[list[int]]) -> None:
    batch = sequences()

    def ours() -> None:
        for part in parts:
            chosen = [batch[i] for i in part]
            packed = pack(chosen, [1 / (len(batch) * one.actions) for one in chosen], CPU)
            found = loss.grpo(token_logprobs(model, packed, 0.7), packed, clip=0.2, beta=0.3)
            total.append(float(found.loss.detach()))
            clipped.append(float(found.clipped))
            found.loss.backward()

    total: list[float] = []
    clipped: list[float] = []
    mine = gradients(model, ours)
    theirs = gradients(model, lambda: plain_grpo(model, batch, 0.7, 0.2, 0.3).backward())
    assert 0.05 < sum(clipped) < 0.95
    assert math.isclose(sum(total), float(plain_grpo(model, batch, 0.7, 0.2, 0.3).detach()), rel_tol=1e-4)
    assert (mine - theirs).norm() < 1e-5 * theirs.norm()


def test_masked_tokens_are_not_trained_and_the_last_token_is(model: Any) -> None:
    one = sequences(2)[1]

    def value(ids: tuple[int, ...]) -> float:
        packed = pack([Sequence("x", ids, one.mask, one.logprobs)], [1.0], CPU)
        return float(loss.sft(token_logprobs(model, packed), packed.weight_A).detach())

    last_masked = max(t for t, m in enumerate(one.mask) if not m)
    end = len(one.ids) - 1
    assert one.mask[end]
    changed = (*one.ids[:end], (one.ids[end] + 1) % 64)
    assert value(changed) != value(one.ids)
    only = Sequence("y", one.ids, tuple(int(t == end) for t in range(end + 1)), one.logprobs)
    packed = pack([only], [1.0], CPU)
    assert packed.target_A.tolist() == [one.ids[end]]
    assert last_masked not in [t for _, t in pack([one], [1.0], CPU).origin]


def test_at_the_reference_the_kl_is_nothing_and_the_ratio_is_one(model: Any) -> None:
    batch = sequences(3)
    packed = pack(batch, [1.0] * 3, CPU)
    with torch.no_grad():
        values = token_logprobs(model, packed).tolist()
    same = []
    for i, one in enumerate(batch):
        logprobs = [0.0] * len(one.ids)
        for (owner, t), value in zip(packed.origin, values, strict=True):
            if owner == i:
                logprobs[t] = value
        same.append(Sequence(one.name, one.ids, one.mask, tuple(logprobs), one.advantage, 1.0, tuple(logprobs)))
    again = pack(same, [1.0] * 3, CPU)
    found = loss.grpo(token_logprobs(model, again), again, clip=0.2, beta=1.0)
    assert float(found.kl) == pytest.approx(0, abs=1e-4)
    assert float(found.clipped) == 0
    assert float(found.ratio) == pytest.approx(len(values), rel=1e-4)
