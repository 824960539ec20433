"""How a stage is run does not change what comes out: gradient checkpointing, going on between steps, bad steps."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from clawloop.training.fit import fit
from clawloop.training.grpo import Grpo
from clawloop.training.ranks import share
from clawloop.training.schedule import Constant, Cosine
from clawloop.training.scheduler.fixed import Fixed
from clawloop.training.sequences import Sequence, groups
from clawloop.training.setup import Setup
from clawloop.training.sft import Sft
from clawloop.training.source.replay import Replay
from clawloop.types import TaskPool
from tests.training.objective import OBJECTIVE


class Stopped(Exception):
    """The stage was interrupted."""


def sft(**changes: Any) -> Sft:
    return Sft(
        **{"lr": 1e-2, "epochs": 3, "batch_size": 5, "warmup": 0.1, "weight_decay": 0.1, "schedule": Cosine()} | changes
    )


def grpo(**changes: Any) -> Grpo:
    fixed = {"lr": 5e-3, "epochs": 2, "batch_size": 10, "warmup": 0.1, "weight_decay": 0.0}
    return Grpo(Replay(Fixed()), **fixed | OBJECTIVE | changes)


def stopping(tracker: Any, at: int) -> Any:
    """A tracker that ends the stage when it is told of a step."""
    inner = tracker.log

    def log(axis: str, step: int, values: dict[str, float]) -> None:
        inner(axis, step, values)
        if step == at:
            raise Stopped

    tracker.log = log
    return tracker


@pytest.mark.parametrize("stage", [sft, grpo])
def test_gradient_checkpointing_changes_no_weight_and_is_off_afterwards(
    stage: Any, policy: Any, another: Any, practice: TaskPool
) -> None:
    calls = []
    for layer in policy.model.get_decoder().layers:
        layer.mlp.register_forward_pre_hook(lambda *_: calls.append(1))
    stage(setup=Setup(gradient_checkpointing=True))(policy, practice, 1)
    once = []
    for layer in another.model.get_decoder().layers:
        layer.mlp.register_forward_pre_hook(lambda *_: once.append(1))
    stage()(another, practice, 1)
    assert torch.equal(policy.weights(), another.weights())
    assert len(calls) > len(once)
    assert not any(layer.gradient_checkpointing for layer in policy.model.get_decoder().layers)


@pytest.mark.parametrize("stage", [sft, grpo])
def test_a_stage_goes_on_from_the_last_step_that_was_kept(
    stage: Any, policy: Any, another: Any, tracker: Any, practice: TaskPool, tmp_path: Path
) -> None:
    start, setup = policy.weights(), Setup(save_every=2, folder=tmp_path)
    stage()(another, practice, 1)
    with pytest.raises(Stopped):
        stage(tracker=stopping(tracker, 45), setup=setup, reached=lambda axis: 40)(policy, practice, 1)
    (place,) = tmp_path.iterdir()
    assert place.name.startswith("theta_1-")
    assert [path.name for path in place.iterdir()] == ["step.4"]
    first = list(tracker.steps)
    torch.nn.utils.vector_to_parameters(start, policy.model.parameters())
    tracker.steps.clear()
    tracker.log = type(tracker).log.__get__(tracker)
    stage(tracker=tracker, setup=setup, reached=lambda axis: 45)(policy, practice, 1)
    assert torch.equal(policy.weights(), another.weights())
    assert tracker.steps[0] == first[4]
    assert [step for _, step, _ in tracker.steps][:2] == [45, 46]


def test_a_stage_whose_last_step_was_kept_has_its_weights(
    policy: Any, another: Any, tracker: Any, practice: TaskPool, tmp_path: Path
) -> None:
    setup = Setup(save_every=1, folder=tmp_path)
    sft(setup=setup)(policy, practice, 1)
    assert not torch.equal(policy.weights(), another.weights())
    sft(setup=setup, tracker=tracker)(another, practice, 1)
    assert not tracker.steps
    assert torch.equal(policy.weights(), another.weights())


def test_a_step_that_was_being_kept_when_the_process_died_is_not_used(
    policy: Any, another: Any, tracker: Any, practice: TaskPool, tmp_path: Path
) -> None:
    setup, start = Setup(save_every=2, folder=tmp_path), policy.weights()
    sft()(another, practice, 1)
    with pytest.raises(Stopped):
        sft(tracker=stopping(tracker, 3), setup=setup)(policy, practice, 1)
    unfinished = tmp_path / "theta_1-sft" / "unfinished"
    unfinished.mkdir()
    (unfinished / "__0_0.distcp").write_bytes(b"half")
    torch.nn.utils.vector_to_parameters(start, policy.model.parameters())
    sft(setup=setup)(policy, practice, 1)
    assert torch.equal(policy.weights(), another.weights())


def test_nothing_is_kept_where_nothing_is_asked_for(policy: Any, practice: TaskPool, tmp_path: Path) -> None:
    sft(setup=Setup(folder=tmp_path))(policy, practice, 1)
    assert not list(tmp_path.iterdir())


def test_batches_of_the_policy_of_the_step_before_are_not_kept(policy: Any, tmp_path: Path) -> None:
    class Made:
        """Batches that cannot be asked for again."""

        def __len__(self) -> int:
            return 3

        def __iter__(self) -> Iterator[list[Sequence]]:
            yield from [[Sequence("a", (5, 6), (0, 1), None)]] * 3

    def micro(batch: list[Sequence], backward: Any) -> dict[str, float]:
        loss = policy.model(torch.tensor([batch[0].ids])).logits.square().mean()
        backward(loss)
        return {"loss": float(loss.detach())}

    fit(
        policy.model,
        Made(),
        micro,
        lr=1e-3,
        schedule=Constant(),
        warmup=0.0,
        weight_decay=0.0,
        max_grad_norm=1.0,
        precision="float32",
        log=lambda at, numbers: None,
        before=0,
        place="theta_1-grpo",
        setup=Setup(save_every=1, folder=tmp_path),
    )
    assert not list(tmp_path.iterdir())


def test_a_step_that_is_not_finite_leaves_its_batch(policy: Any, practice: TaskPool, tmp_path: Path) -> None:
    with torch.no_grad():
        policy.model.get_decoder().norm.weight[0] = torch.nan
    path = tmp_path / "theta_2-grpo" / "not-finite-1.json"
    with pytest.raises(FloatingPointError) as raised:
        grpo(setup=Setup(folder=tmp_path))(policy, practice, 2)
    said = str(raised.value)
    assert f"kept in {path}); lower the trainer's lr or lr_multiplier." in said
    kept = json.loads(path.read_text())
    assert len(kept["sequences"]) == 10
    first = kept["sequences"][0]
    assert first["name"] in said
    drawn = {one.name: one for one in groups(practice, 100, OBJECTIVE["advantage"]).sequences}
    assert (first["ids"], first["mask"]) == ([*drawn[first["name"]].ids], [*drawn[first["name"]].mask])
    assert kept["numbers"]["loss"] != kept["numbers"]["loss"]


def test_ranks_take_turns_and_all_have_as_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clawloop.training.ranks.count", lambda: 3)
    parts = ["a", "b", "c", "d"]
    shares = []
    for rank in range(3):
        monkeypatch.setattr("clawloop.training.ranks.number", lambda rank=rank: rank)
        shares.append(list(share(parts)))
    assert shares == [[("a", 1.0), ("d", 1.0)], [("b", 1.0), ("a", 0.0)], [("c", 1.0), ("a", 0.0)]]
