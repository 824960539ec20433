"""training: what is trained of a batch; that the losses are right is in test_equality."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from clawloop.training import loss
from clawloop.training.clip import Clip
from clawloop.training.correction import NoCorrection
from clawloop.training.kl import K3
from clawloop.training.logprobs import token_logprobs
from clawloop.training.packing import pack
from clawloop.training.ratio import TokenLevel
from clawloop.training.sequences import Sequence

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


def gradients(model: Any, value: Callable[[], None]) -> torch.Tensor:
    model.zero_grad()
    value()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


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
    choices = loss.Choices(Clip(0.2, 0.2), TokenLevel(), K3(), NoCorrection(), beta=1.0)
    found = loss.grpo(token_logprobs(model, again), again, choices)
    assert float(found.sums["kl"]) == pytest.approx(0, abs=1e-4)
    assert float(found.sums["clip_fraction"]) == 0
    assert float(found.sums["ratio"]) == pytest.approx(len(values), rel=1e-4)
    assert float(found.farthest) < 1e-4
