"""Adapters: what is trained under adapter=lora, what comes out of a stage, and who samples with it meanwhile."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

from clawloop.build.stages import stages
from clawloop.config.composed import composed
from clawloop.config.errors import ConfigError
from clawloop.policy.adapter import attached
from clawloop.policy.hf import HfPolicy
from clawloop.store.layout import Layout
from clawloop.training.adapter.full import Full
from clawloop.training.adapter.lora import Lora
from clawloop.training.grpo import Grpo
from clawloop.training.schedule import Cosine
from clawloop.training.scheduler.fixed import Fixed
from clawloop.training.sft import Sft
from clawloop.training.source.replay import Replay
from clawloop.types import Message, Request, TaskPool
from tests.training.objective import OBJECTIVE

IDS = torch.tensor([[11, 12, 13, 14, 15, 16]])


def sft(**changes: Any) -> Sft:
    return Sft(
        **{"lr": 1e-2, "epochs": 2, "batch_size": 5, "warmup": 0.0, "weight_decay": 0.1, "schedule": Cosine()} | changes
    )


def grpo(**changes: Any) -> Grpo:
    fixed = {"lr": 1e-2, "epochs": 1, "batch_size": 16, "warmup": 0.0, "weight_decay": 0.0}
    return Grpo(Replay(Fixed()), **fixed | OBJECTIVE | changes)


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        return torch.as_tensor(model(IDS).logits)


def state(policy: HfPolicy) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in policy.model.state_dict().items()}


def test_a_new_adapter_changes_nothing_and_is_all_that_can_be_trained(network: HfPolicy) -> None:
    before = logits(network.model)
    Lora(rank=4, alpha=8.0).attach(network.model, "theta_1-sft")
    assert torch.equal(logits(network.model), before)
    trained = {name for name, p in network.model.named_parameters() if p.requires_grad}
    layers = {name.split("layers.")[1].split(".lora_")[0] for name in trained}
    assert len(layers) == 2 * 7
    assert all(".lora_A." in name or ".lora_B." in name for name in trained)
    other = {name: p for name, p in network.model.named_parameters() if "lora_A" in name}
    assert any(p.abs().sum() > 0 for p in other.values())


@pytest.mark.parametrize("stage", [sft, grpo])
def test_a_stage_trains_the_adapter_alone_and_ends_with_a_plain_network(
    stage: Any, network: HfPolicy, practice: TaskPool, small_model: Path, tmp_path: Path
) -> None:
    start, before = state(network), logits(network.model)
    names = [name for name, _ in network.model.named_parameters()]
    adapted = Lora(rank=4, alpha=8.0, targets=["q_proj", "down_proj"]).over(stage())
    trained = adapted(network, practice, 1)
    assert trained is network and network.version == f"theta_1-{adapted.name}"
    assert not attached(network.model)
    assert [name for name, p in network.model.named_parameters() if p.requires_grad] == names
    changed = {name for name, tensor in state(network).items() if not torch.equal(tensor, start[name])}
    assert changed == {name for name in start if "q_proj.weight" in name or "down_proj.weight" in name}
    assert not torch.allclose(logits(network.model), before, atol=1e-3)

    network.save(tmp_path)
    plain = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    assert torch.equal(logits(plain.eval()), logits(network.model))
    base = AutoModelForCausalLM.from_pretrained(small_model, dtype=torch.float32)
    adapted_base = PeftModel.from_pretrained(base, tmp_path / "adapter")
    assert torch.allclose(logits(adapted_base.eval()), logits(network.model), atol=1e-4)
    again = HfPolicy(small_model, context=256).load(tmp_path, "theta_1")
    assert again.adapter == network.adapter


def test_the_next_stage_starts_with_an_adapter_of_its_own(network: HfPolicy, practice: TaskPool) -> None:
    stage = Lora(rank=2, alpha=4.0, seed=3).over(sft())
    stage(network, practice, 1)
    first, between = dict(network.adapter), state(network)
    stage(network, practice, 2)
    assert first["adapter_model.safetensors"] != network.adapter["adapter_model.safetensors"]
    deltas = [
        tensor - between[name]
        for name, tensor in state(network).items()
        if tensor.ndim == 2 and not torch.equal(tensor, between[name])
    ]
    assert deltas and all(torch.linalg.matrix_rank(delta, rtol=1e-3) <= 2 for delta in deltas)


def test_the_engine_in_this_process_samples_with_the_adapter(network: HfPolicy) -> None:
    Lora(rank=4, alpha=8.0).attach(network.model, "theta_1-grpo")
    request = Request((Message("user", "Count the lines."),), "s", 5, 12)
    plain = network.complete(request)
    with torch.no_grad():
        for name, p in network.model.named_parameters():
            if "lora_B" in name:
                p.normal_(generator=torch.Generator().manual_seed(0))
    reply = network.renamed("theta_1-grpo-1").complete(request)
    assert reply.logprobs != pytest.approx(plain.logprobs, abs=1e-3)
    ids = torch.tensor([[*reply.prompt_ids, *reply.ids]])
    with torch.no_grad():
        table = torch.log_softmax(network.model(ids).logits[0], -1)
    start = len(reply.prompt_ids)
    expected = [float(table[start + i - 1, token]) for i, token in enumerate(reply.ids)]
    assert reply.logprobs == pytest.approx(expected, abs=1e-3)


def test_a_stage_repeats_itself_to_the_bit(network: HfPolicy, practice: TaskPool, small_model: Path) -> None:
    other = HfPolicy(small_model, context=256)
    noise = torch.get_rng_state()
    for policy in (network, other):
        Lora(rank=4, alpha=8.0, seed=5).over(sft())(policy, practice, 1)
    assert torch.equal(torch.get_rng_state(), noise)
    assert all(torch.equal(tensor, state(other)[name]) for name, tensor in state(network).items())


def test_what_cannot_be_adapted_is_refused_in_words(
    network: HfPolicy, policy: Any, practice: TaskPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match=r"adapter\.rank is 0; set 1 or more"):
        Lora(rank=0, alpha=1.0)
    with pytest.raises(ValueError, match=r"adapter\.targets: \['w_proj'\] names no linear layers"):
        Lora(rank=2, alpha=1.0, targets=["w_proj"]).attach(network.model, "x")
    with pytest.raises(TypeError, match="adapter=lora: FakePolicy has no network to adapt"):
        Lora(rank=2, alpha=1.0).over(sft())(policy, practice, 1)
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(ValueError, match=r"peft is not installed; pip install 'clawloop\[lora\]'"):
        Lora(rank=2, alpha=1.0).attach(network.model, "x")


@pytest.mark.parametrize("adapter", ["full", "lora"])
def test_a_kl_to_another_network_than_the_one_under_the_adapter_is_refused_before_anything_starts(
    adapter: str, network: HfPolicy, tmp_path: Path
) -> None:
    config = composed(["reference=iteration", f"adapter={adapter}"])

    def made() -> Any:
        return stages(config, Layout(tmp_path), policy=network, theta=tmp_path.joinpath, source=Replay(Fixed()))

    if adapter == "full":
        assert list(made()) == ["sft", "grpo"]
    else:
        with pytest.raises(ConfigError, match=r"reference=iteration: adapter=lora .* choose reference=stage"):
            made()


def test_full_leaves_stages_as_they_are(network: HfPolicy) -> None:
    stage = sft()
    assert Full().over(stage) is stage
    Full().attach(network.model, "theta_1-sft")
    assert not attached(network.model)


def test_the_files_say_how_the_adapter_is_laid_over_its_weights(network: HfPolicy, practice: TaskPool) -> None:
    Lora(rank=4, alpha=8.0, targets=["v_proj"]).over(sft())(network, practice, 1)
    settings = json.loads(network.adapter["adapter_config.json"])
    assert (settings["r"], settings["lora_alpha"], settings["target_modules"]) == (4, 8.0, ["v_proj"])
