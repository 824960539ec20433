"""training: a tree of sequences has the log-probabilities and gradients of each sequence alone."""

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.attention.flex_attention import flex_attention
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

from clawloop.training import attention
from clawloop.training.attention import block_mask, takes_trees
from clawloop.training.logprobs import token_logprobs
from clawloop.training.packing import cut, pack
from clawloop.training.sequences import Sequence

CPU = torch.device("cpu")
SIZE: dict[str, Any] = {
    "vocab_size": 61, "hidden_size": 24, "intermediate_size": 32, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "initializer_range": 0.3,
}  # fmt: skip


@pytest.fixture(params=["qwen3", "llama"])
def model(request: pytest.FixtureRequest) -> Any:
    torch.manual_seed(0)
    if request.param == "llama":
        return LlamaForCausalLM(LlamaConfig(**SIZE, tie_word_embeddings=True)).double()
    return Qwen3ForCausalLM(Qwen3Config(**SIZE)).double()


def made(texts: list[list[int]], rng: random.Random) -> list[Sequence]:
    """Sequences whose tokens from the third on are trained, most of them, and the last always."""
    masks = [[int(t > 1 and (rng.random() < 0.7 or t == len(ids) - 1)) for t in range(len(ids))] for ids in texts]
    return [
        Sequence(str(i), tuple(ids), tuple(mask), None) for i, (ids, mask) in enumerate(zip(texts, masks, strict=True))
    ]


def some(rng: random.Random, count: int) -> list[int]:
    return [rng.randrange(61) for _ in range(count)]


def nothing_shared(rng: random.Random) -> list[list[int]]:
    return [[first, *some(rng, 6 + 3 * first)] for first in range(5)]


def a_prompt_shared(rng: random.Random) -> list[list[int]]:
    prompt = some(rng, 17)
    return [prompt + some(rng, count) for count in (4, 9, 1, 13)]


def branches_in_branches(rng: random.Random) -> list[list[int]]:
    trunk = some(rng, 9)
    left, right = [*trunk, 1, *some(rng, 6)], [*trunk, 2, *some(rng, 3)]
    twig = left + some(rng, 5)
    return [trunk, left + some(rng, 4), twig + some(rng, 3), twig + some(rng, 8), right + some(rng, 2), right, twig]


def the_same_thrice(rng: random.Random) -> list[list[int]]:
    one = some(rng, 12)
    return [one, some(rng, 5), one, one]


def suffixes_of_one_token(rng: random.Random) -> list[list[int]]:
    prompt = some(rng, 11)
    return [[*prompt, i] for i in range(6)]


def two_trees(rng: random.Random) -> list[list[int]]:
    return [[0, *text] for text in a_prompt_shared(rng)] + [[1, *text] for text in a_prompt_shared(rng)]


SHAPES = [nothing_shared, a_prompt_shared, branches_in_branches, the_same_thrice, suffixes_of_one_token, two_trees]


def gradients(model: Any, value: torch.Tensor) -> torch.Tensor:
    model.zero_grad()
    value.backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_are_those_of_each_sequence_alone(model: Any, shape: Callable[..., list[list[int]]]) -> None:
    rng = random.Random(3)
    batch = made(shape(rng), rng)
    weights = [(i + 1) * (-1) ** i / 8 for i in range(len(batch))]  # each its own, also where sequences are the same

    def ours(parts: list[list[int]]) -> torch.Tensor:
        total = torch.zeros((), dtype=torch.double)
        for part in parts:
            packed = pack([batch[i] for i in part], [weights[i] for i in part], CPU)
            total = total + (token_logprobs(model, packed, 0.5).exp() * packed.weight_A).sum()
        return total

    slow = torch.zeros((), dtype=torch.double)
    for one, weight in zip(batch, weights, strict=True):
        table = torch.log_softmax(model(torch.tensor([one.ids])).logits[0] / 0.5, -1)
        slow = slow + sum(weight * table[t - 1, one.ids[t]].exp() for t in range(len(one.ids)) if one.mask[t])
    theirs = gradients(model, slow)
    for parts in ([list(range(len(batch)))], cut(batch, 40), [[i] for i in range(len(batch))]):
        found = ours(parts)
        assert found.item() == pytest.approx(slow.item(), rel=1e-6)
        assert (gradients(model, found) - theirs).norm() < 5e-6 * theirs.norm()  # their norms are float32 in any model


@pytest.mark.parametrize("shape", SHAPES)
def test_attention_in_pieces_is_attention_with_a_mask(shape: Callable[..., list[list[int]]]) -> None:
    rng = random.Random(7)
    texts = shape(rng)
    packed = pack(made(texts, rng), [1.0] * len(texts), CPU)
    n = len(packed.ids_N)
    places = torch.arange(n)
    looks = (places <= places[:, None]) & (places[:, None] < packed.end_N)
    torch.manual_seed(0)
    q, k, v, grad = (torch.randn(1, heads, n, 8, dtype=torch.double) for heads in (4, 2, 2, 4))
    found = []
    for mask in (attention.tree_mask(packed.end_N), looks[None, None]):
        leaves = [x.clone().requires_grad_() for x in (q, k, v)]
        module = torch.nn.Module()
        module.num_key_value_groups = 2
        out, _ = attention._attend(module, *leaves, mask, scaling=0.4)
        out.backward(grad.transpose(1, 2))
        found.append([out, *(x.grad for x in leaves)])
    for ours, theirs in zip(*found, strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-12, atol=1e-12)


def test_checkpointed_layers_have_the_same_gradients(model: Any) -> None:
    rng = random.Random(4)
    batch = made(branches_in_branches(rng), rng)
    packed = pack(batch, [1.0] * len(batch), CPU)
    model.train()
    whole = gradients(model, token_logprobs(model, packed).sum())
    model.gradient_checkpointing_enable()
    again = gradients(model, token_logprobs(model, packed).sum())
    assert (again - whole).norm() < 1e-12 * whole.norm()


def test_a_model_that_was_trained_on_trees_reads_plain_batches_as_before(model: Any) -> None:
    ids, real = torch.randint(0, 61, (2, 9)), torch.ones(2, 9, dtype=torch.long)
    real[0, :4] = 0  # padded to the left, as for sampling
    with torch.no_grad():
        before = model(ids, attention_mask=real).logits
        attention.attend_by_trees(model)
        after = model(ids, attention_mask=real).logits
    assert torch.equal(before[real.bool()], after[real.bool()])


@pytest.mark.parametrize("kind", ["sliding_attention", "linear_attention"])
def test_a_model_with_other_layers_gets_padded_rows(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model: Any = Qwen3ForCausalLM(Qwen3Config(**SIZE)).double()
    rng = random.Random(5)
    batch = made(branches_in_branches(rng), rng)
    packed = pack(batch, [1.0] * len(batch), CPU)
    right = token_logprobs(model, packed)
    model.config.layer_types = ["full_attention", kind]
    assert not takes_trees(model)
    model.config.layer_types = ["full_attention"] * 2
    seen: list[torch.Size] = []
    hook = model.get_decoder().embed_tokens.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].shape))
    monkeypatch.setattr("clawloop.training.logprobs.takes_trees", lambda model: False)
    rows = token_logprobs(model, packed)
    hook.remove()
    assert seen == [(len(batch), max(len(one.ids) for one in batch))]
    assert torch.allclose(right, rows, rtol=1e-12)


def test_dropout_of_attention_is_refused() -> None:
    model: Any = Qwen3ForCausalLM(Qwen3Config(**SIZE, attention_dropout=0.1)).train()
    rng = random.Random(0)
    with pytest.raises(ValueError, match="set attention_dropout of the model to 0"):
        token_logprobs(model, pack(made(a_prompt_shared(rng), rng), [1.0] * 4, CPU))


@pytest.mark.parametrize("shape", SHAPES)
def test_flex_attention_reads_the_same_tree(shape: Callable[..., list[list[int]]]) -> None:
    rng = random.Random(6)
    texts = shape(rng)
    packed = pack(made(texts, rng), [1.0] * len(texts), CPU)
    n = len(packed.ids_N)
    torch.manual_seed(0)
    q = torch.randn(1, 4, n, 8)
    k, v = torch.randn(2, 1, 2, n, 8)
    theirs = flex_attention(q, k, v, block_mask=block_mask(packed.end_N), enable_gqa=True)
    ours, _ = attention._attend(None, q, k, v, attention.tree_mask(packed.end_N), scaling=8**-0.5)
    assert torch.allclose(ours.transpose(1, 2), theirs, atol=1e-5)
