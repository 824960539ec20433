"""training/logprobs: a vocabulary in pieces, of which nothing is kept for the backward pass."""

from typing import Any

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks
from transformers import LlamaConfig, LlamaForCausalLM

from clawloop.training import logprobs
from clawloop.training.logprobs import logprobs_and_entropy, token_logprobs
from clawloop.training.packing import Packed, pack
from clawloop.training.sequences import Sequence

CPU = torch.device("cpu")
VOCABULARY, WIDTH, LENGTH = 96, 16, 40


@pytest.fixture(params=["linear", "bias"])
def model(request: pytest.FixtureRequest) -> Any:
    """With a plain head, and with one that is called through its own forward."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=WIDTH, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, initializer_range=0.3, tie_word_embeddings=False,
    )  # fmt: skip
    network: Any = LlamaForCausalLM(config)
    if request.param == "bias":
        network.lm_head = torch.nn.Linear(WIDTH, VOCABULARY)
    return network


def packed() -> Packed:
    g = torch.Generator().manual_seed(1)
    texts = torch.randint(0, VOCABULARY, (3, LENGTH), generator=g).tolist()
    mask = (0,) * 10 + (1,) * (LENGTH - 10)
    return pack([Sequence("s", tuple(ids), mask, None) for ids in texts], [1.0] * 3, CPU)


def plain(model: Any, batch: Packed, temperature: float) -> tuple[torch.Tensor, torch.Tensor]:
    ids = batch.ids_N[torch.stack(batch.path)]
    table = torch.log_softmax(model(ids).logits / temperature, -1)[:, 9:-1]
    return table.gather(2, ids[:, 10:, None]).flatten(), -(table.exp() * table).sum(-1).flatten()


def gradients(model: Any, value: torch.Tensor) -> torch.Tensor:
    model.zero_grad()
    value.square().sum().backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


@pytest.mark.parametrize("chunk", [1, VOCABULARY * 7, 1 << 22])
def test_pieces_give_what_the_whole_gives(model: Any, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logprobs, "_CHUNK", chunk)
    found, entropy = logprobs_and_entropy(model, packed(), 0.7)
    right, spread = plain(model, packed(), 0.7)
    assert torch.allclose(found, right, atol=1e-5)
    assert torch.allclose(entropy, spread, atol=1e-5)
    assert not entropy.requires_grad
    theirs = gradients(model, right)
    assert (gradients(model, found) - theirs).norm() < 1e-5 * theirs.norm()


def kept(value: Any) -> int:
    """The largest number of values that one tensor of the graph keeps."""
    sizes: list[int] = []

    def pack_hook(tensor: torch.Tensor) -> torch.Tensor:
        if not isinstance(tensor, torch.nn.Parameter):
            sizes.append(tensor.numel())
        return tensor

    with saved_tensors_hooks(pack_hook, lambda tensor: tensor):
        value()
    return max(sizes)


def test_nothing_of_tokens_times_vocabulary_is_kept(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = packed()
    trained = len(batch.target_A)
    monkeypatch.setattr(logprobs, "_CHUNK", VOCABULARY * 7)
    assert kept(lambda: plain(model, batch, 1.0)) >= trained * VOCABULARY
    assert kept(lambda: token_logprobs(model, batch)) < trained * VOCABULARY / 2


def test_logits_are_computed_for_trained_tokens_only(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    whole, piece = logprobs._logits, logprobs._picked
    monkeypatch.setattr(logprobs, "_logits", lambda h, *rest: seen.append(len(h)) or whole(h, *rest))
    monkeypatch.setattr(logprobs, "_picked", lambda head, h, *rest: seen.append(len(h)) or piece(head, h, *rest))
    token_logprobs(model, packed())
    assert sum(seen) == 3 * (LENGTH - 10)


def test_a_frozen_head_gets_no_gradient_and_what_is_below_does(model: Any) -> None:
    model.lm_head.requires_grad_(False)
    token_logprobs(model, packed()).sum().backward()
    assert model.lm_head.weight.grad is None
    assert model.get_decoder().embed_tokens.weight.grad.abs().max() > 0


def test_autocast_runs_the_head_in_bfloat16_and_sums_in_float32(model: Any) -> None:
    right = gradients(model, token_logprobs(model, packed()))
    with torch.autocast("cpu", torch.bfloat16):
        found = token_logprobs(model, packed())
    assert found.dtype == torch.float32
    near = gradients(model, found)
    assert (near - right).norm() < 0.1 * right.norm()
