"""training: what the two stages draw from a pool, and what they do to a policy."""

import math
import random
from collections.abc import Sequence as Many
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from clawloop.training.advantage import GroupRelative, LeaveOneOut
from clawloop.training.correction import Truncated
from clawloop.training.grpo import Grpo
from clawloop.training.ratio import SequenceLevel
from clawloop.training.reference import Iteration, Stage
from clawloop.training.schedule import Constant, Cosine
from clawloop.training.scheduler.fixed import Fixed
from clawloop.training.sequences import Sequence, Wanted, groups, successes
from clawloop.training.sft import Sft
from clawloop.training.source.replay import Replay
from clawloop.types import Rollout, RolloutGroup, TaskPool, TokenTrace
from tests.bare import bare, trial
from tests.training.objective import OBJECTIVE

PROMPT = (5, 6, 7, 8)
GOOD, BAD = 11, 12


def rollout(
    name: str, index: int, reward: float | None, ids: Many[int], logprobs: Many[float] = (), prompt: int = 4
) -> Rollout:
    mask = tuple(int(t >= prompt) for t in range(len(ids)))
    trace = TokenTrace(tuple(ids), mask, tuple(logprobs) or (-1.0,) * len(ids))
    return trial(name, index, reward, trace)


def group(name: str, rollouts: Many[Rollout]) -> RolloutGroup:
    return RolloutGroup(bare(name), tuple(rollouts))


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
    fixed = {"lr": 1e-2, "epochs": 3, "batch_size": 4, "warmup": 0.03, "weight_decay": 0.1, "schedule": Cosine()}
    return Sft(**fixed | changes)


def grpo(**changes: Any) -> Grpo:
    fixed = {"lr": 5e-3, "epochs": 4, "batch_size": 16, "warmup": 0.05, "weight_decay": 0.0}
    return Grpo(Replay(Fixed()), **fixed | OBJECTIVE | changes)


def gspo(**changes: Any) -> Grpo:
    """The ratio of an episode, and micro-batches that hold two of its sequences at most."""
    return grpo(**{"ratio": SequenceLevel(), "micro_tokens": 30} | changes)


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


def test_an_episode_of_several_sequences_is_drawn_whole_or_not_at_all() -> None:
    one, other = (
        TokenTrace((*PROMPT, GOOD), (0, 0, 0, 0, 1), (-1.0,) * 5),
        TokenTrace((5, 6, 9), (0, 0, 1), (-1.0,) * 3),
    )
    long = TokenTrace((*PROMPT, *range(30)), (0,) * 4 + (1,) * 30, (-1.0,) * 34)
    prompt = TokenTrace(PROMPT, (0,) * 4, (0.0,) * 4)
    rollouts = trial("a", 0, 1.0, one, other), trial("a", 1, 1.0, other, long), trial("a", 2, 1.0, prompt)
    failed = rollout("a", 3, 0.0, (*PROMPT, BAD))
    pool = TaskPool((group("a", [*rollouts, failed]),))
    drawn = successes(pool, max_tokens=10)
    assert [(s.name, s.episode) for s in drawn.sequences] == [("a#0.0", "a#0"), ("a#0.1", "a#0")]
    assert (drawn.too_long, drawn.empty) == (("a#1",), 1)
    drawn = groups(pool, 10, GroupRelative(0.0))
    assert [s.name for s in drawn.sequences] == ["a#0.0", "a#0.1", "a#3"]
    assert [s.advantage for s in drawn.sequences] == pytest.approx([3**-0.5] * 2 + [-(3**0.5)])
    blind = trial("a", 0, 1.0, one, replace(other, logprobs=None))
    with pytest.raises(ValueError, match=r"log-probabilities of 1 rollouts \(a#0, "):
        groups(TaskPool((group("a", [blind, failed]),)), 10, GroupRelative(0.0))


@pytest.mark.parametrize("stage", [sft, grpo, gspo])
def test_an_episode_weighs_the_same_in_one_sequence_and_in_several(
    stage: Any, policy: Any, another: Any, tracker: Any
) -> None:
    """The second and third reply of some episodes are trained in sequences of their own, after the same tokens."""
    pools: list[list[RolloutGroup]] = [[], []]
    for i in range(4):
        joined, apart = [], []
        for j in range(6):
            ids = (*PROMPT, 20 + i, GOOD if j < 3 else BAD, 1, 7, 30 + j, 8, GOOD, 1)
            logprobs, masks = policy.logprobs(ids), [(5, 7), (8, 9), (10, 12)]

            def part(*spans: tuple[int, int], ids: Any = ids, logprobs: Any = logprobs) -> TokenTrace:
                mask = tuple(int(any(a <= t < b for a, b in spans)) for t in range(spans[-1][1]))
                return TokenTrace(ids[: len(mask)], mask, logprobs[: len(mask)])

            joined.append(trial(f"t{i}", j, float(j < 3), part(*masks)))
            whole = [part(*masks)] if j % 2 else [part(span) for span in masks]
            apart.append(trial(f"t{i}", j, float(j < 3), *whole))
        for pool, rollouts in zip(pools, (joined, apart), strict=True):
            pool.append(group(f"t{i}", rollouts))
    for one, pool in zip((policy, another), pools, strict=True):
        stage(batch_size=8, epochs=2, tracker=tracker)(one, TaskPool(tuple(pool)), 1)
    assert torch.allclose(policy.weights(), another.weights(), atol=2e-4)
    steps = [values for _, _, values in tracker.steps]
    half = len(steps) // 2
    assert half >= 4 and [s["tokens"] for s in steps[:half]] == [s["tokens"] for s in steps[half:]]
    if "ratio" in steps[0]:
        assert [s["reward"] for s in steps[:half]] == [s["reward"] for s in steps[half:]]
        assert steps[half]["ratio"] == pytest.approx(1, abs=1e-4)


def test_grpo_draws_judged_rollouts_of_mixed_groups() -> None:
    mixed = [rollout("a", j, r, (*PROMPT, GOOD)) for j, r in enumerate([1.0, None, 0.0, 0.0, 0.0])]
    solved = [rollout("b", j, r, (*PROMPT, GOOD)) for j, r in enumerate([1.0, 1.0, None])]
    broken = [rollout("c", j, None, (*PROMPT, GOOD)) for j in range(3)]
    drawn = groups(TaskPool((group("a", mixed), group("b", solved), group("c", broken))), 100, GroupRelative(0.0))
    assert [one.name for one in drawn.sequences] == ["a#0", "a#2", "a#3", "a#4"]
    assert [one.advantage for one in drawn.sequences] == pytest.approx([3**0.5, *[-(3**-0.5)] * 3])
    assert (drawn.groups, drawn.unanimous) == (1, 2)


def test_a_group_of_one_and_one_with_a_single_judged_trial_are_dropped() -> None:
    alone = group("a", [rollout("a", 0, 1.0, (*PROMPT, GOOD))])
    partial = group("b", [rollout("b", j, r, (*PROMPT, GOOD)) for j, r in enumerate([None, 0.0, None])])
    for advantage in (GroupRelative(0.0), LeaveOneOut()):
        drawn = groups(TaskPool((alone, partial, group("c", []))), 100, advantage)
        assert (drawn.sequences, drawn.groups, drawn.unanimous) == ((), 0, 3)


def test_a_trial_that_is_too_long_counts_in_the_mean_of_its_group_all_the_same() -> None:
    trials = [rollout("a", j, r, (*PROMPT, *[GOOD] * n)) for j, (r, n) in enumerate([(1.0, 30), (0.0, 1), (0.0, 1)])]
    drawn = groups(TaskPool((group("a", trials),)), 10, LeaveOneOut())
    assert [(one.name, one.advantage) for one in drawn.sequences] == [("a#1", -0.5), ("a#2", -0.5)]
    assert drawn.too_long == ("a#0",)


def test_advantages_have_no_mean_and_unit_deviation() -> None:
    group_relative = GroupRelative(0.0)
    advantages = group_relative([1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    assert sum(advantages) == pytest.approx(0)
    assert sum(a * a for a in advantages) / 8 == pytest.approx(1)
    assert GroupRelative(0.5)([1.0, 0.0]) == [0.5, -0.5]
    assert group_relative([0.0, 0.0, 0.0]) == [0.0, 0.0, 0.0]


def test_left_one_out_a_trial_is_compared_with_the_mean_of_the_others() -> None:
    rewards = [1.0, 0.25, 0.0, 0.0, 1.0]
    others = [[r for i, r in enumerate(rewards) if i != j] for j in range(5)]
    wanted = [r - sum(rest) / 4 for r, rest in zip(rewards, others, strict=True)]
    assert LeaveOneOut()(rewards) == pytest.approx(wanted)
    assert LeaveOneOut()([0.5, 0.5]) == [0.0, 0.0]


def test_a_constant_rate_stays_where_the_warm_up_left_it() -> None:
    assert [Constant()(step, 100, 0.05) for step in range(100)] == pytest.approx([0.2, 0.4, 0.6, 0.8] + [1.0] * 96)
    assert [Constant()(step, 3, 0.0) for step in range(3)] == [1.0] * 3


def test_the_rate_rises_then_falls_and_no_step_is_at_zero() -> None:
    cosine = Cosine()
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


def test_at_a_rate_of_zero_the_drift_is_that_of_the_engine(policy: Any, tracker: Any) -> None:
    exact = sampled(policy)
    noisy = TaskPool(
        tuple(
            replace(g, rollouts=tuple(_louder(r, 0.3 if r.index % 2 else -0.1) for r in g.rollouts))
            for g in exact.groups
        )
    )
    grpo(lr=0.0, epochs=1, batch_size=32, tracker=tracker)(policy, noisy, 1)
    (_, _, numbers) = tracker.steps[0]
    assert numbers["drift"] == pytest.approx(0.2, abs=1e-4)
    assert numbers["drift_max"] == pytest.approx(0.3, abs=1e-4)
    assert numbers["drift_kl"] == pytest.approx((math.exp(-0.3) + math.exp(0.1)) / 2 - 1 + 0.1, abs=1e-4)
    assert numbers["ratio"] == pytest.approx((math.exp(-0.3) + math.exp(0.1)) / 2, abs=1e-4)
    assert numbers["correction"] == 1
    tracker.steps.clear()
    grpo(lr=0.0, epochs=1, batch_size=32, tracker=tracker, correction=Truncated(1.05))(policy, noisy, 1)
    (_, _, numbers) = tracker.steps[0]
    assert numbers["ratio"] == pytest.approx(1, abs=1e-4)
    assert numbers["correction"] == pytest.approx((math.exp(-0.3) + 1.05) / 2, abs=1e-4)
    assert numbers["drift"] == pytest.approx(0.2, abs=1e-4)


def _louder(one: Rollout, by: float) -> Rollout:
    """The same trial, where the engine claims log-probabilities that are off by so much."""
    assert one.trajectory is not None and one.trajectory.traces[0].logprobs is not None
    trace = replace(one.trajectory.traces[0], logprobs=tuple(value + by for value in one.trajectory.traces[0].logprobs))
    return replace(one, trajectory=replace(one.trajectory, traces=(trace,)))


def test_the_reference_is_the_policy_of_the_stage_or_of_the_iteration(
    policy: Any, tracker: Any, tmp_path: Path
) -> None:
    pool = sampled(policy)
    policy.model.save_pretrained(tmp_path / "theta_0")
    sft()(policy, pool, 1)
    entering = policy.weights()
    grpo(lr=0.0, epochs=1, batch_size=32, tracker=tracker)(policy, pool, 1)
    grpo(lr=0.0, epochs=1, batch_size=32, tracker=tracker, reference=Iteration(lambda k: tmp_path / f"theta_{k}"))(
        policy, pool, 1
    )
    stage, iteration = tracker.series("kl")
    assert stage == pytest.approx(0, abs=1e-6)
    # the rollouts are theta_0's own, so the KL to it is the drift from them, seen from the other side
    drift = [value - b for r in _trials(pool) for value, b in _pairs(policy, r)]
    assert iteration == pytest.approx(sum(math.exp(-d) - 1 + d for d in drift) / len(drift), rel=1e-3)
    assert iteration > 0.01
    assert torch.equal(entering, policy.weights())
    with pytest.raises(ValueError, match=r"reference=iteration: .*theta_1 is not there"):
        grpo(reference=Iteration(lambda k: tmp_path / f"theta_{k}"))(policy, pool, 2)


def _trials(pool: TaskPool) -> list[Rollout]:
    return [rollout for group in pool.groups for rollout in group.rollouts]


def _pairs(policy: Any, one: Rollout) -> list[tuple[float, float]]:
    """Of each trained token, what the policy says of it and what the ledger does."""
    assert one.trajectory is not None and one.trajectory.traces[0].logprobs is not None
    trace = one.trajectory.traces[0]
    return [(v, b) for v, b, m in zip(policy.logprobs(trace.ids), trace.logprobs, trace.mask, strict=True) if m]


def test_only_the_log_probabilities_that_are_needed_are_computed(policy: Any, tracker: Any, tmp_path: Path) -> None:
    policy.model.save_pretrained(tmp_path / "theta_0")
    iteration = Iteration(lambda k: tmp_path / f"theta_{k}")
    passes: list[bool] = []
    hook = policy.model.get_decoder().register_forward_pre_hook(lambda *_: passes.append(torch.is_grad_enabled()))

    def before_the_first_step(**changes: Any) -> int:
        passes.clear()
        grpo(lr=0.0, epochs=1, batch_size=32, micro_tokens=10_000, tracker=tracker, **changes)(policy, pool, 1)
        assert passes.count(True) == 1
        return passes.count(False)

    pool = sampled(policy)
    passes.clear()
    assert before_the_first_step(beta=0.0, reference=iteration) == 0
    assert "kl" not in tracker.steps[-1][2]
    assert before_the_first_step() == 1
    assert before_the_first_step(correction=Truncated(2.0)) == 1
    assert before_the_first_step(beta=0.0, correction=Truncated(2.0)) == 1
    assert before_the_first_step(reference=iteration, correction=Truncated(2.0)) == 2
    hook.remove()


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
    with pytest.raises(ValueError, match=r"trainer\.grpo\.precision is 'fp16'"):
        grpo(precision="fp16")
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


class Asked(Replay):
    """Notes whether the weights that enter the stage are to be kept."""

    entered = False

    def open(self, policy: Any, practice: TaskPool, k: int, wanted: Wanted) -> Any:
        self.entered = wanted.entered
        return super().open(policy, practice, k, wanted)


@pytest.mark.parametrize(("beta", "own", "kept"), [(0.04, False, True), (0.04, True, False), (0.0, False, False)])
def test_weights_are_kept_for_the_reference_only_where_it_is_what_entered(
    policy: Any, tmp_path: Path, beta: float, own: bool, kept: bool
) -> None:
    source = Asked(Fixed())
    reference = Iteration(lambda k: tmp_path) if own else Stage()
    fixed = {"lr": 0.0, "epochs": 1, "batch_size": 4, "warmup": 0.0, "weight_decay": 0.0}
    Grpo(source, **fixed | OBJECTIVE | {"beta": beta, "reference": reference})(policy, TaskPool(()), 1)
    assert source.entered is kept
