"""training/step: loss, gradient and numbers equal the equations for every option, however a step is cut and shared.

The equations are read in float64, one sequence and one token at a time, over the whole vocabulary: slow and obvious.
"""

import copy
import functools
import math
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import yaml
from torch import distributed
from transformers import LlamaConfig, LlamaForCausalLM

from clawloop.config.folders import data_dir, options
from clawloop.training import correction, kl, logprobs, normalisation, ratio, step
from clawloop.training.clip import Clip, NoClip
from clawloop.training.loss import Choices
from clawloop.training.sequences import Sequence

TEMPERATURE = 0.7
LOW, HIGH, HIGHER, CAP, LENGTH = 0.2, 0.2, 0.5, 1.5, 50


def network() -> Any:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=128, tie_word_embeddings=True, initializer_range=0.3,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


@functools.cache
def sequences() -> list[Sequence]:
    """Eight sequences of six episodes, one of three unequal ones. All begin alike, all policies are near `network`."""
    g, model = torch.Generator().manual_seed(1), network()
    made = []
    for i, episode in enumerate("abbcdefb"):
        length = 6 + 5 * (i % 4)
        ids = torch.cat([torch.tensor([5, 6, 7]), torch.randint(0, 64, (length - 3,), generator=g)])
        mask = tuple(int(t >= 3 and (t % 5 != 4)) for t in range(length))
        with torch.no_grad():
            table_TV = torch.log_softmax(model(ids[None]).logits[0] / TEMPERATURE, -1)
        own = [0.0, *(float(table_TV[t - 1, ids[t]]) for t in range(1, length))]
        number = "abcdef".index(episode)
        noise = 0.3 * torch.randn(3, length, generator=g) + (0.4 if number % 2 else -0.4) * torch.tensor(
            [[1], [1.5], [-1]]
        )
        behaviour, reference, old = (tuple(map(float, torch.tensor(own) + one)) for one in noise)
        advantage, reward = (1.2, -0.7, 0.4)[number % 3], float(number % 2)
        made.append(Sequence(f"s{i}", tuple(ids.tolist()), mask, behaviour, advantage, reward, reference, old, episode))
    return made


@dataclass(frozen=True)
class Objective:
    """A choice of every group, by the name of its yaml."""

    clip: str = "symmetric"
    ratio: str = "token"
    kl: str = "k3"
    correction: str = "none"
    normalisation: str = "sequence"
    beta: float = 0.3

    def __str__(self) -> str:
        return f"{self.clip}-{self.ratio}-{self.kl}-{self.correction}-{self.normalisation}-{self.beta}"


def trained(model: Any, one: Sequence, temperature: float) -> Iterator[tuple[int, torch.Tensor, float]]:
    """Each trained position with its log-probability, and the entropy of what it was drawn from."""
    table_TV = torch.log_softmax(model(torch.tensor([one.ids])).logits[0] / temperature, -1)
    for t in range(1, len(one.ids)):
        if one.mask[t]:
            entropy = sum(-float(value) * math.exp(value) for value in table_TV[t - 1].detach())
            yield t, table_TV[t - 1, one.ids[t]], entropy


def slow_sft(model: Any, batch: list[Sequence]) -> torch.Tensor:
    found = [value for one in batch for _, value, _ in trained(model, one, 1.0)]
    return -sum(found, torch.tensor(0.0)) / len(found)


def slow_grpo(
    model: Any, batch: list[Sequence], of: Objective, temperature: float
) -> tuple[torch.Tensor, dict[str, float]]:
    """The loss of a step, and means over its tokens."""
    episodes: dict[str, list[tuple[Sequence, int, torch.Tensor, float]]] = {}
    for one in batch:
        episodes.setdefault(one.episode, []).extend((one, *found) for found in trained(model, one, temperature))
    tokens = sum(map(len, episodes.values()))
    total = torch.tensor(0.0, dtype=torch.float64)
    means = dict.fromkeys(("entropy", "clip_fraction", "ratio", "correction", "drift", "drift_kl", "kl"), 0.0)
    farthest = 0.0
    for trial in episodes.values():
        logs = [value - (one.logprobs if of.correction == "none" else one.old)[t] for one, t, value, _ in trial]
        mean_log = sum(logs, torch.tensor(0.0)) / len(logs)
        for (one, t, value, entropy), log in zip(trial, logs, strict=True):
            ratio = torch.exp(log if of.ratio == "token" else mean_log)
            roof = {"symmetric": 1 + HIGH, "higher": 1 + HIGHER, "none": math.inf}[of.clip]
            floor = -math.inf if of.clip == "none" else 1 - LOW
            if (one.advantage > 0 and ratio > roof) or (one.advantage < 0 and ratio < floor):
                gain = (roof if one.advantage > 0 else floor) * one.advantage * torch.ones(())
                means["clip_fraction"] += 1 / tokens
            else:
                gain = ratio * one.advantage
            factor = 1.0 if of.correction == "none" else min(math.exp(one.old[t] - one.logprobs[t]), CAP)
            d = value - one.reference[t]
            kl = {"k1": d, "k2": d * d / 2, "k3": torch.exp(-d) - 1 + d}[of.kl]
            weight = {
                "token": 1 / tokens,
                "sequence": 1 / len(episodes) / len(trial),
                "constant": 1 / len(episodes) / LENGTH,
            }[of.normalisation]
            total = total + weight * (of.beta * kl - factor * gain)
            drift = float(value.detach()) - one.logprobs[t]
            farthest = max(farthest, abs(drift))
            for name, number in {
                "entropy": entropy,
                "ratio": float(ratio.detach()),
                "correction": factor,
                "drift": abs(drift),
                "drift_kl": math.exp(drift) - 1 - drift,
                "kl": float(kl.detach()),
            }.items():
                means[name] += number / tokens
    if not of.beta:
        del means["kl"]
    return total, means | {"drift_max": farthest}


TABLE = [
    Objective(),
    Objective(beta=0.0),
    Objective(clip="higher"),
    Objective(clip="none"),
    Objective(ratio="sequence"),
    Objective(kl="k1"),
    Objective(kl="k2"),
    Objective(correction="truncated"),
    Objective(normalisation="token"),
    Objective(normalisation="constant"),
    Objective("higher", "token", "k3", "truncated", "token", 0.0),  # DAPO
    Objective("symmetric", "token", "k3", "none", "constant", 0.05),  # Dr.GRPO, with its advantages
    Objective("higher", "sequence", "k2", "truncated", "sequence"),  # GSPO
    Objective("none", "sequence", "k1", "none", "token"),
]
MICRO = {"one episode": 1, "several": 60, "all": 10_000}
PARTS = {
    "clip": {"symmetric": Clip(LOW, HIGH), "higher": Clip(LOW, HIGHER), "none": NoClip()},
    "ratio": {"token": ratio.TokenLevel(), "sequence": ratio.SequenceLevel()},
    "kl": {"k1": kl.K1(), "k2": kl.K2(), "k3": kl.K3()},
    "correction": {"none": correction.NoCorrection(), "truncated": correction.Truncated(CAP)},
    "normalisation": {
        "token": normalisation.PerToken(),
        "sequence": normalisation.PerSequence(),
        "constant": normalisation.Constant(LENGTH),
    },
}


@pytest.fixture(scope="module")
def model() -> Any:
    return network()


@pytest.fixture(scope="module")
def exact() -> Callable[[Objective], tuple[float, torch.Tensor, dict[str, float]]]:
    """The slow loss, its gradient and its numbers, each worked out once."""
    model = network().double()

    @functools.cache
    def found(of: Objective) -> tuple[float, torch.Tensor, dict[str, float]]:
        return _slowly(model, of)

    return found


def _slowly(model: Any, of: Objective) -> tuple[float, torch.Tensor, dict[str, float]]:
    model.zero_grad()
    loss, means = slow_grpo(model, sequences(), of, TEMPERATURE)
    loss.backward()
    return float(loss.detach()), _gradient(model), means


def _gradient(model: Any) -> torch.Tensor:
    return torch.cat([p.grad.flatten() for p in model.parameters()]).double()


def _ours(model: Any, batch: list[Any], of: Objective, micro_tokens: int) -> dict[str, float]:
    model.zero_grad()
    clip, ratio_, kl_, correction_, normalisation_ = (PARTS[g][getattr(of, g)] for g in PARTS)  # type: ignore[index]
    return step.grpo(
        model,
        batch,
        torch.Tensor.backward,
        Choices(clip, ratio_, kl_, correction_, of.beta),
        normalisation_,
        temperature=TEMPERATURE,
        micro_tokens=micro_tokens,
    )


def _agree(numbers: dict[str, float], gradient: torch.Tensor, wanted: tuple[float, torch.Tensor, Any]) -> None:
    loss, slow_gradient, means = wanted
    assert numbers.keys() == {"loss", "reward", "tokens", *means}
    assert {name: numbers[name] for name in means} == pytest.approx(means, rel=1e-4, abs=1e-6)
    assert numbers["loss"] == pytest.approx(loss, rel=1e-4, abs=1e-6)
    assert (gradient - slow_gradient).norm() < 1e-4 * slow_gradient.norm()
    assert numbers["reward"] == 0.5
    assert numbers["tokens"] == sum(one.actions for one in sequences())


def test_the_table_has_every_option_that_conf_offers() -> None:
    for group, known in PARTS.items():
        assert {getattr(of, group) for of in TABLE} == set(options(group)) == set(known)
        for name in options(group):
            target = yaml.safe_load((data_dir("conf") / group / f"{name}.yaml").read_text())["_target_"]
            kind = type(known[name])
            assert target == f"{kind.__module__}.{kind.__name__}"


def test_the_table_tells_its_options_apart(exact: Any) -> None:
    gradients = [exact(of)[1] for of in TABLE]
    assert all((a - b).norm() > 0.01 * b.norm() for i, a in enumerate(gradients) for b in gradients[:i])
    assert 0.05 < exact(TABLE[0])[2]["clip_fraction"] < 0.95
    assert exact(Objective(clip="higher"))[2]["clip_fraction"] < exact(TABLE[0])[2]["clip_fraction"]
    assert 0.05 < exact(Objective(ratio="sequence"))[2]["clip_fraction"] < 0.95
    truncated = exact(Objective(correction="truncated"))[2]["correction"]
    assert abs(truncated - 1) > 0.01


@pytest.mark.parametrize("trees", [False, True], ids=["rows", "trees"])
@pytest.mark.parametrize("micro_tokens", MICRO.values(), ids=MICRO)
@pytest.mark.parametrize("of", TABLE, ids=str)
def test_a_step_is_the_equations(
    model: Any, exact: Any, of: Objective, micro_tokens: int, trees: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step, "takes_trees", lambda model: trees)
    monkeypatch.setattr(logprobs, "takes_trees", lambda model: trees)
    numbers = _ours(model, sequences(), of, micro_tokens)
    _agree(numbers, _gradient(model), exact(of))


@pytest.mark.parametrize("trees", [False, True], ids=["rows", "trees"])
@pytest.mark.parametrize("micro_tokens", MICRO.values(), ids=MICRO)
def test_sft_is_eq_1(model: Any, micro_tokens: int, trees: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step, "takes_trees", lambda model: trees)
    monkeypatch.setattr(logprobs, "takes_trees", lambda model: trees)
    slow = copy.deepcopy(model).double()
    slow.zero_grad()
    wanted = slow_sft(slow, sequences())
    wanted.backward()  # type: ignore[no-untyped-call]
    model.zero_grad()
    numbers = step.sft(model, sequences(), torch.Tensor.backward, micro_tokens=micro_tokens)
    assert numbers["loss"] == pytest.approx(float(wanted.detach()), rel=1e-5)
    assert (_gradient(model) - _gradient(slow)).norm() < 1e-5 * _gradient(slow).norm()
    assert _gradient(slow).abs().max() > 1e-3


def _rank(rank: int, port: int) -> None:
    """One of two processes: it has its share of the micro-batches, and the gradients are added up."""
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    model = network()
    found = [(_ours(model, sequences(), of, 40), _summed_gradient(model)) for of in TABLE]
    model.zero_grad()
    numbers = step.sft(model, sequences(), torch.Tensor.backward, micro_tokens=40)
    gradient = _summed_gradient(model)
    distributed.destroy_process_group()
    slow = network().double()
    for of, theirs in list(zip(TABLE, found, strict=True))[rank::2]:
        _agree(*theirs, _slowly(slow, of))
    slow.zero_grad()
    wanted = slow_sft(slow, sequences())
    wanted.backward()  # type: ignore[no-untyped-call]
    assert numbers["loss"] == pytest.approx(float(wanted.detach()), rel=1e-5)
    assert (gradient - _gradient(slow)).norm() < 1e-5 * _gradient(slow).norm()


def _summed_gradient(model: Any) -> torch.Tensor:
    gradient = _gradient(model)
    distributed.all_reduce(gradient)
    return gradient


def test_two_ranks_with_unequal_shares_make_the_same_step() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    ranks = [subprocess.Popen([sys.executable, __file__, rank, port], stderr=subprocess.PIPE) for rank in "01"]
    for rank in ranks:
        _, said = rank.communicate(timeout=200)
        assert rank.returncode == 0, said.decode()


if __name__ == "__main__":
    _rank(int(sys.argv[1]), int(sys.argv[2]))
