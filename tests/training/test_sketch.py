"""training/sketch: a fixed sample of the last blocks' gradient, the same however the model is spread over ranks."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from clawloop.training.sketch import GradientSketch, allot, last_blocks


class Net(nn.Module):
    """Six blocks between embeddings and a head, with biases and odd sizes."""

    def __init__(self, blocks: int = 6, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.embed = nn.Embedding(50, 7)
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(7, 11), nn.Tanh(), nn.Linear(11, 7)) for _ in range(blocks))
        self.head = nn.Linear(7, 50)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        hidden = self.embed(ids)
        for layer in self.layers:
            hidden = hidden + layer(hidden)
        return self.head(hidden)


def backward(net: Any, seed: int) -> None:
    ids = torch.randint(0, 50, (4, 9), generator=torch.Generator().manual_seed(seed))
    net.zero_grad()
    nn.functional.cross_entropy(net(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()).backward()


def flat(net: Any, blocks: int) -> torch.Tensor:
    wanted = [f"layers.{i}." for i in range(6 - blocks, 6)]
    return torch.cat([p.grad.flatten() for name, p in net.named_parameters() if name.startswith(tuple(wanted))])


def test_only_the_last_blocks_are_sampled() -> None:
    assert {name.split(".")[1] for name in last_blocks(Net(), 4)} == {"2", "3", "4", "5"}
    assert {name.split(".")[1] for name in last_blocks(Net(2), 4)} == {"0", "1"}
    frozen = Net()
    for layer in list(frozen.layers)[1:]:
        layer.requires_grad_(False)
    assert {name.split(".")[1] for name in last_blocks(frozen, 4)} == {"0"}
    with pytest.raises(ValueError, match="no trained parameter is in a block"):
        last_blocks(nn.Linear(3, 3), 4)


def test_adapters_are_sampled_under_the_names_that_peft_gives_them() -> None:
    class Adapted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.base_model = nn.Module()
            self.base_model.model = nn.Module()
            self.base_model.model.layers = nn.ModuleList(nn.Module() for _ in range(6))
            for layer in self.base_model.model.layers:
                layer.q_proj = nn.Module()
                layer.q_proj.base_layer = nn.Linear(8, 8).requires_grad_(False)
                layer.q_proj.lora_A = nn.ModuleDict({"default": nn.Linear(8, 2, bias=False)})
                layer.q_proj.lora_B = nn.ModuleDict({"default": nn.Linear(2, 8, bias=False)})

    model = Adapted()
    names = set(last_blocks(model, 4))
    assert len(names) == 8
    assert all(".lora_" in name and int(name.split(".layers.")[1][0]) >= 2 for name in names)
    for p in model.parameters():
        p.grad = torch.ones_like(p) if p.requires_grad else None
    assert len(GradientSketch(65_536, 4, 0.3, 0).sample(model)) == 4 * (16 + 16)


def test_coordinates_are_allotted_in_proportion() -> None:
    sizes = [10_000, 300, 41, 1]
    counts = allot(sizes, 1000)
    assert sum(counts) == 1000
    assert all(abs(count - 1000 * size / sum(sizes)) < 1 for count, size in zip(counts, sizes, strict=True))
    assert allot(sizes, 10**9) == sizes


def test_a_sketch_of_all_coordinates_is_the_gradient_and_a_smaller_one_a_part_of_it() -> None:
    net = Net()
    backward(net, 0)
    whole = GradientSketch(10**6, 4, 0.3, 0).sample(net)
    assert torch.equal(whole, flat(net, 4))
    part, again, other = (GradientSketch(200, 4, 0.3, seed).sample(net) for seed in (0, 0, 1))
    assert torch.equal(part, again) and not torch.equal(part, other)
    assert len(part) == 200 and set(part.tolist()) <= set(whole.tolist())
    backward(net, 1)
    assert not torch.equal(part, GradientSketch(200, 4, 0.3, 0).sample(net))


def test_what_has_no_gradient_counts_as_nothing() -> None:
    net = Net()
    backward(net, 0)
    before = GradientSketch(10**6, 4, 0.3, 0).sample(net)
    net.layers[5][0].weight.grad = None
    after = GradientSketch(10**6, 4, 0.3, 0).sample(net)
    assert int((before != after).sum()) == 77 and len(before) == len(after)


def test_cosines_are_with_the_averages_of_the_others() -> None:
    net, sketch = Net(), GradientSketch(10**6, 4, 0.3, 0)
    grads = []
    for seed in range(4):
        backward(net, seed)
        grads.append(flat(net, 4))
    cos = nn.functional.cosine_similarity

    def step(name: str, gradient: int) -> dict[str, float]:
        backward(net, gradient)
        return sketch(name, net)

    assert step("a", 0) == {}
    assert step("b", 1) == pytest.approx({"a": float(cos(grads[1], grads[0], dim=0))}, abs=1e-6)
    assert list(step("a", 2)) == ["b"]
    average = 0.7 * grads[0] + 0.3 * grads[2]
    found = step("c", 3)
    wanted = {"a": float(cos(grads[3], average, dim=0)), "b": float(cos(grads[3], grads[1], dim=0))}
    assert found == pytest.approx(wanted, abs=1e-6)
    fresh = GradientSketch(10**6, 4, 0.3, 0)
    fresh.load_state_dict(sketch.state_dict())
    backward(net, 0)
    assert fresh("b", net) == sketch("b", net)


def _ranks(rank: int, kind: str, folder: str) -> None:
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    os.environ.update(MASTER_ADDR="127.0.0.1", GLOO_SOCKET_IFNAME="lo")
    dist.init_process_group("gloo", f"file://{folder}/meet", rank=rank, world_size=2)
    net: Any = Net()
    if kind == "shards":
        mesh = init_device_mesh("cpu", (2,))
        for layer in net.layers:
            fully_shard(layer, mesh=mesh)
        fully_shard(net, mesh=mesh)
        backward(net, 0)
    else:
        backward(net, rank)
    torch.save(GradientSketch(300, 4, 0.3, 0).sample(net), f"{folder}/{rank}")
    dist.destroy_process_group()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["shards", "copies"])
def test_two_ranks_have_the_sketch_of_the_whole(kind: str, tmp_path: Path) -> None:
    torch.multiprocessing.start_processes(_ranks, (kind, str(tmp_path)), nprocs=2, start_method="fork")
    first, second = (torch.load(tmp_path / str(rank)) for rank in range(2))
    assert torch.equal(first, second)
    found = []
    for seed in (0, 0) if kind == "shards" else (0, 1):
        net = Net()
        backward(net, seed)
        found.append(GradientSketch(300, 4, 0.3, 0).sample(net))
    wanted = sum(found) / 2 if kind == "copies" else found[0] / 2  # of shards, each coordinate is at one rank
    assert (first - wanted).norm() < 1e-5 * wanted.norm()
