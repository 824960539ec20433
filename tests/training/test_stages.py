"""training: what the two stages draw from a pool, and what they do to a policy."""

import random
from collections.abc import Sequence as Many
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from clawloop.training.advantage import group_relative
from clawloop.training.fit import cosine
from clawloop.training.grpo import Grpo
from clawloop.training.sft import Sft
from clawloop.training.source import Sequence, groups, successes
from clawloop.types import (
    Card,
    Contract,
    Outcome,
    Rollout,
    RolloutGroup,
    Stop,
    Task,
    TaskPool,
    TokenTrace,
    Trajectory,
    Verifier,
    Workspace,
)

PROMPT = (5, 6, 7, 8)
GOOD, BAD = 11, 12


def rollout(
    name: str, index: int, reward: float | None, ids: Many[int], logprobs: Many[float] = (), prompt: int = 4
) -> Rollout:
    mask = tuple(int(t >= prompt) for t in range(len(ids)))
    trace = TokenTrace(tuple(ids), mask, tuple(logprobs) or (-1.0,) * len(ids))
    trajectory = Trajectory(name, "shell", "theta_0", (), trace, Stop.SUBMITTED, 0.0)
    outcome = Outcome.INFRASTRUCTURE_FAILED if reward is None else Outcome.SCORED
    return Rollout(name, index, outcome, reward, trajectory, None)


def group(name: str, rollouts: Many[Rollout]) -> RolloutGroup:
    card = Card("capability", "audit", "analysis", "apiary", 0, "json", 0, name)
    return RolloutGroup(Task(name, "", Workspace(), Verifier("", ""), Contract((), ()), card), tuple(rollouts))


def sampled(policy: Any, tasks: int = 4) -> TaskPool:
    """Groups of 8 in which the reply GOOD is rewarded and BAD is not, with the policy's own log-probabilities."""
    made = []
    for i in range(tasks):
        prompt = (*PROMPT, 20 + i)
        rollouts = []
        for j in range(8):
            ids = (*prompt, GOOD if j < 3 else BAD, 1)
            rollouts.append(rollout(f"t{i}", j, float(j < 3), ids, policy.logprobs(ids), prompt=5))
        made.append(group(f"t{i}", rollouts))
    return TaskPool(tuple(made))


def sft(**changes: Any) -> Sft:
    return Sft(**{"lr": 1e-2, "epochs": 3, "batch_size": 4, "warmup": 0.03, "weight_decay": 0.1} | changes)


def grpo(**changes: Any) -> Grpo:
    fixed = {"lr": 5e-3, "epochs": 4, "batch_size": 16, "warmup": 0.05, "weight_decay": 0.0}
    return Grpo(**fixed | {"beta": 0.04, "clip": 0.2, "epsilon": 1e-4} | changes)


def test_sft_draws_the_rewarded_and_names_what_it_leaves_out() -> None:
    long = (*PROMPT, *range(30))
    rollouts = [
        rollout("a", 0, 1.0, (*PROMPT, GOOD, 1)),
        rollout("a", 1, 0.0, (*PROMPT, BAD, 1)),
        rollout("a", 2, None, (*PROMPT, GOOD, 1)),
        rollout("a", 3, 1.0, long),
        rollout("a", 4, 1.0, PROMPT),
    ]
    pool = TaskPool((group("a", rollouts),))
    drawn = successes(pool, max_tokens=10)
    assert [one.name for one in drawn.sequences] == ["a#0"]
    assert drawn.too_long == ("a#3",)
    assert drawn.empty == 1
    whole = successes(pool, max_tokens=len(long))
    assert [one.ids for one in whole.sequences] == [(*PROMPT, GOOD, 1), long]


def test_grpo_draws_judged_rollouts_of_mixed_groups() -> None:
    mixed = [rollout("a", j, r, (*PROMPT, GOOD)) for j, r in enumerate([1.0, None, 0.0, 0.0, 0.0])]
    solved = [rollout("b", j, r, (*PROMPT, GOOD)) for j, r in enumerate([1.0, 1.0, None])]
    broken = [rollout("c", j, None, (*PROMPT, GOOD)) for j in range(3)]
    drawn = groups(TaskPool((group("a", mixed), group("b", solved), group("c", broken))), 100, 0.0)
    assert [one.name for one in drawn.sequences] == ["a#0", "a#2", "a#3", "a#4"]
    assert [one.advantage for one in drawn.sequences] == pytest.approx([3**0.5, *[-(3**-0.5)] * 3])
    assert (drawn.groups, drawn.unanimous) == (1, 2)


def test_advantages_have_no_mean_and_unit_deviation() -> None:
    advantages = group_relative([1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0], 0.0)
    assert sum(advantages) == pytest.approx(0)
    assert sum(a * a for a in advantages) / 8 == pytest.approx(1)
    assert group_relative([1.0, 0.0], 0.5) == [0.5, -0.5]
    assert group_relative([0.0, 0.0, 0.0], 0.0) == [0.0, 0.0, 0.0]


def test_the_rate_rises_then_falls_and_no_step_is_at_zero() -> None:
    rates = [cosine(step, 100, 0.05) for step in range(100)]
    assert rates[:5] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert all(earlier >= later for earlier, later in pairwise(rates[4:]))
    assert rates[52] == pytest.approx(0.5, abs=0.01)
    assert 0 < rates[-1] < 0.001
    for steps in range(1, 5):
        assert min(cosine(step, steps, 0.05) for step in range(steps)) > 0.1
        assert cosine(0, steps, 0.0) == 1.0


def test_sft_learns_the_successes_and_not_the_failures(policy: Any, tracker: Any) -> None:
    pool = sampled(policy)
    good, bad = (*PROMPT, 20, GOOD, 1), (*PROMPT, 20, BAD, 1)
    before = policy.logprobs(good), policy.logprobs(bad)
    returned = sft(tracker=tracker, epochs=8)(policy, pool, 2)
    assert returned is policy
    assert policy.version == "theta_2-sft"
    after = policy.logprobs(good), policy.logprobs(bad)
    assert after[0][5] > before[0][5] + 0.5
    assert after[0][6] > before[0][6] + 0.5
    assert after[1][5] < before[1][5]
    losses = tracker.series("loss")
    assert len(losses) == 8 * 3
    assert losses[-1] < 0.5 * losses[0]
    assert tracker.series("tokens") == [8.0] * 24
    assert tracker.series("lr")[0] == 1e-2
    assert tracker.events["sft/data"]["sequences"] == 12


def test_grpo_raises_what_was_rewarded_and_lowers_the_rest(policy: Any, tracker: Any) -> None:
    pool = sampled(policy)
    good, bad = (*PROMPT, 20, GOOD, 1), (*PROMPT, 20, BAD, 1)
    before = policy.logprobs(good)[5], policy.logprobs(bad)[5]
    assert grpo(tracker=tracker)(policy, pool, 1).version == "theta_1-grpo"
    assert policy.logprobs(good)[5] > before[0] + 0.1
    assert policy.logprobs(bad)[5] < before[1] - 0.1
    _, step, first = tracker.steps[0]
    assert step == 1
    assert first["kl"] == pytest.approx(0, abs=1e-6)
    assert first["ratio"] == pytest.approx(1, abs=1e-4)
    assert first["drift"] == pytest.approx(0, abs=1e-4)
    assert first["clip_fraction"] == 0
    assert tracker.series("kl")[-1] > 1e-4
    assert tracker.series("reward")[0] == pytest.approx(3 / 8, abs=0.2)
    assert tracker.events["grpo/data"]["groups"] == 4


def test_grpo_compares_at_the_temperature_of_sampling(tracker: Any, policy: Any, another: Any) -> None:
    policy.temperature = 0.5
    pool = sampled(policy)
    another.temperature = 1.0
    grpo(tracker=tracker, epochs=1)(another, pool, 1)
    wrong = tracker.steps[0][2]["drift"]
    tracker.steps.clear()
    grpo(tracker=tracker, epochs=1)(policy, pool, 1)
    assert tracker.steps[0][2]["drift"] < 1e-4 < 0.05 < wrong
    policy.temperature = 0.0
    with pytest.raises(ValueError, match="temperature"):
        grpo()(policy, pool, 1)


def test_the_kl_holds_a_policy_back(policy: Any, another: Any) -> None:
    pool = sampled(policy)
    start = policy.weights()
    grpo(beta=0.0)(policy, pool, 1)
    grpo(beta=50.0)(another, pool, 1)
    bad = (*PROMPT, 20, BAD, 1)
    assert policy.logprobs(bad)[5] < another.logprobs(bad)[5]
    assert not torch.equal(start, another.weights())


@pytest.mark.parametrize("stage", [sft, grpo])
def test_a_stage_repeats_itself_to_the_bit_and_hears_its_seed(stage: Any, policy: Any, another: Any) -> None:
    pool = sampled(policy)
    start = policy.weights()
    state = random.getstate(), torch.get_rng_state()
    for one in (policy, another):
        stage(seed=3, batch_size=5)(one, pool, 1)
    assert random.getstate() == state[0]
    assert torch.equal(torch.get_rng_state(), state[1])
    assert torch.equal(policy.weights(), another.weights())
    for k, seed in ((1, 4), (2, 3)):
        torch.nn.utils.vector_to_parameters(start, another.model.parameters())
        stage(seed=seed, batch_size=5)(another, pool, k)
        assert not torch.equal(policy.weights(), another.weights())


@pytest.mark.parametrize("stage", [sft, grpo])
def test_micro_batches_do_not_matter(stage: Any, policy: Any, another: Any) -> None:
    pool = sampled(policy)
    stage(micro_tokens=1)(policy, pool, 1)
    stage(micro_tokens=10_000)(another, pool, 1)
    assert torch.allclose(policy.weights(), another.weights(), atol=2e-4)


@pytest.mark.parametrize("stage", [sft, grpo])
def test_nothing_to_train_on_changes_nothing(stage: Any, policy: Any, tracker: Any) -> None:
    start = policy.weights()
    pool = TaskPool((group("a", [rollout("a", j, 0.0, (*PROMPT, BAD)) for j in range(4)]),))
    for empty in (TaskPool(()), pool):
        returned = stage(tracker=tracker)(policy, empty, 3)
        assert returned.version.startswith("theta_3-")
    assert torch.equal(start, policy.weights())
    assert not tracker.steps
    assert tracker.events[f"{returned.version.split('-')[1]}/data"]["sequences"] == 0


def test_steps_go_on_where_the_axis_has_got_to(policy: Any, tracker: Any) -> None:
    sft(tracker=tracker, epochs=1, reached=lambda axis: {"sft": 40}[axis])(policy, sampled(policy), 2)
    assert [(axis, step) for axis, step, _ in tracker.steps] == [("sft", 41), ("sft", 42), ("sft", 43)]


def test_a_loss_that_is_not_finite_stops_before_the_weights_change(policy: Any) -> None:
    pool = sampled(policy)
    with torch.no_grad():
        policy.model.get_decoder().norm.weight[0] = torch.nan
    start = policy.weights()
    with pytest.raises(FloatingPointError, match=r"step 1: .* not finite .*t\d#\d"):
        sft()(policy, pool, 1)
    assert torch.equal(start.nan_to_num(7.0), policy.weights().nan_to_num(7.0))


def test_what_cannot_be_trained_is_refused(policy: Any) -> None:
    with pytest.raises(TypeError, match="trainer sft: str has no weights"):
        sft()("scripted", TaskPool(()), 1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"trainer\.grpo\.schedule is 'linear'"):
        grpo(schedule="linear")
    with pytest.raises(ValueError, match=r"trainer\.sft\.precision is 'int8'"):
        sft(precision="int8")
    with pytest.raises(ValueError, match="No token of x"):
        sft().fit(policy, [Sequence("x", PROMPT, (1, 0, 0, 0), (0.0,) * 4)], 1)


def test_bfloat16_trains_fp32_weights(policy: Any, tracker: Any) -> None:
    pool = sampled(policy)
    grpo(precision="bfloat16", tracker=tracker, epochs=1)(policy, pool, 1)
    assert policy.weights().dtype == torch.float32
    assert tracker.series("kl")[0] == pytest.approx(0, abs=1e-5)  # what is shared decides how sums are rounded
    assert 1e-4 < tracker.steps[0][2]["drift"] < 0.2


def test_training_leaves_nothing_behind(policy: Any, tmp_path: Path, monkeypatch: Any, capfd: Any) -> None:
    monkeypatch.chdir(tmp_path)
    sft()(policy, sampled(policy), 1)
    assert not list(tmp_path.iterdir())
    assert capfd.readouterr() == ("", "")
    assert not policy.model.training
