"""training: what is trained of a batch, and how it is packed; that the losses are right is in test_equality."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from clawloop.training import logprobs, loss
from clawloop.training.clip import Clip
from clawloop.training.correction import NoCorrection
from clawloop.training.kl import K3
from clawloop.training.logprobs import token_logprobs
from clawloop.training.packing import cut, pack, rows_of
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


def test_a_vocabulary_in_pieces_gives_the_same(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = sequences()

    def run() -> None:
        packed = pack(batch, [1.0] * len(batch), CPU)
        found.append(token_logprobs(model, packed))
        found[-1].sum().backward()

    found: list[torch.Tensor] = []
    whole = gradients(model, run)
    monkeypatch.setattr(logprobs, "_CHUNK", 64 * 5)
    pieces = gradients(model, run)
    assert torch.allclose(*found)
    assert (whole - pieces).norm() < 1e-5 * whole.norm()


def test_logits_are_computed_for_trained_tokens_only(model: Any) -> None:
    batch = sequences()
    seen: list[int] = []
    hook = model.get_output_embeddings().register_forward_pre_hook(lambda _, inputs: seen.append(len(inputs[0])))
    token_logprobs(model, pack(batch, [1.0] * len(batch), CPU))
    hook.remove()
    assert seen == [sum(one.actions for one in batch)]
    assert seen[0] < sum(len(one.ids) for one in batch)


def test_a_mask_is_made_only_where_sequences_share_a_row(model: Any) -> None:
    three = sequences(3)
    alone, shared = pack(three, [1.0] * 3, CPU), pack(three, [1.0] * 3, CPU, 40)
    assert alone.mask_B1TT is None and len(alone.ids_BT) == 3
    assert shared.mask_B1TT is not None and len(shared.ids_BT) == 1
    with torch.no_grad():
        right = token_logprobs(model, shared)
        wrong = token_logprobs(model, replace(shared, mask_B1TT=torch.ones_like(shared.mask_B1TT).tril()))
    assert not torch.allclose(right, wrong, atol=1e-2)


def test_rows_hold_whole_sequences() -> None:
    lengths = [9, 3, 7, 7, 2, 1, 5, 30]
    rows = rows_of(lengths, 12)
    assert sorted(i for row in rows for i in row) == list(range(8))
    assert all(sum(lengths[i] for i in row) <= 12 or row == [7] for row in rows)
    assert len(rows) == 4


def test_micro_batches_hold_every_sequence_once_and_stay_small() -> None:
    batch = sequences(20)
    parts = cut(batch, 60)
    assert sorted(i for part in parts for i in part) == list(range(20))
    assert all(len(part) * max(len(batch[i].ids) for i in part) <= 60 for part in parts)
    assert len(cut(batch, 10**6)) == 1


def test_the_sequences_of_an_episode_stay_in_one_micro_batch() -> None:
    batch = [replace(one, episode="abbcdeafa"[i]) for i, one in enumerate(sequences(9))]
    for micro_tokens in (1, 30, 60, 10**6):
        parts = cut(batch, micro_tokens)
        assert sorted(i for part in parts for i in part) == list(range(9))
        homes = [{n for n, part in enumerate(parts) for i in part if batch[i].episode == name} for name in "abcdef"]
        assert all(len(home) == 1 for home in homes)
        for part in parts:
            assert (
                len(part) * max(len(batch[i].ids) for i in part) <= micro_tokens
                or len({batch[i].episode for i in part}) == 1
            )
    assert len(cut(batch, 1)) == 6
