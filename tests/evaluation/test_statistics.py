"""Known answers, degenerate cases, and the coverage of the intervals on simulated runs."""

import random
from collections.abc import Sequence

import pytest

from clawloop.evaluation.statistics import coverage, difference, interval, pass_all, pass_at, pass_rate, wilson
from clawloop.types import Card, Contract, Outcome, Rollout, RolloutGroup, Task, Verifier, Workspace


def group(name: str, rewards: Sequence[float | None]) -> RolloutGroup:
    card = Card("capability", "merge", "analysis", "bees", 0, "json", 1, name)
    task = Task(name, "do", Workspace(), Verifier("", ""), Contract((), ()), card)
    broken = Outcome.INFRASTRUCTURE_FAILED
    return RolloutGroup(
        task,
        tuple(Rollout(name, j, broken if r is None else Outcome.SCORED, r, None, None) for j, r in enumerate(rewards)),
    )


def test_interval_is_the_t_interval() -> None:
    # mean 0.4, s = sqrt(0.05), t(4, 0.975) = 2.7764: half = 2.7764 * sqrt(0.05 / 5)
    mean, low, high = interval([0.1, 0.3, 0.4, 0.5, 0.7], 0, 1)
    assert (mean, low, high) == pytest.approx((0.4, 0.4 - 0.27764, 0.4 + 0.27764), abs=1e-5)


def test_interval_stays_in_its_range() -> None:
    assert interval([0.0, 0.0, 1.0], 0, 1)[1] == 0.0
    assert interval([1.0, 1.0, 0.0], 0, 1)[2] == 1.0


@pytest.mark.parametrize("value", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("n", [1, 10])
def test_values_that_are_all_alike_still_have_width(value: float, n: int) -> None:
    mean, low, high = interval([value] * n, 0, 1)
    assert mean == value and low <= value <= high
    assert high - low == pytest.approx(wilson(0, n)[1])


def test_all_passed_is_wilson() -> None:
    assert interval([1.0] * 12, 0, 1)[1:] == pytest.approx(wilson(12, 12))


def test_no_values() -> None:
    with pytest.raises(ValueError, match="at least one value"):
        interval([], 0, 1)


def test_wilson_known_answers() -> None:
    assert wilson(8, 10) == pytest.approx((0.49016, 0.94331), abs=1e-5)
    assert wilson(0, 10) == pytest.approx((0.0, 0.27753), abs=1e-5)
    assert wilson(0, 0) == (0.0, 1.0)


def test_the_task_is_the_unit() -> None:
    # Ten times the trials of each task must not narrow the interval.
    few = pass_rate([group("a", [1.0, 0.0]), group("b", [0.0, 0.0]), group("c", [1.0, 1.0])])
    many = pass_rate([group("a", [1.0, 0.0] * 10), group("b", [0.0] * 20), group("c", [1.0] * 20)])
    assert (few.mean, few.low, few.high) == (many.mean, many.low, many.high)
    assert (few.trials, many.trials, few.tasks) == (6, 60, 3)


def test_a_task_weighs_one_however_many_trials_it_kept() -> None:
    assert pass_rate([group("a", [1.0, None, None, None]), group("b", [0.0] * 4)]).mean == 0.5


def test_trials_without_reward_are_left_out_and_reported() -> None:
    estimate = pass_rate([group("a", [1.0, None]), group("b", [None, None]), group("c", [0.0, 1.0])])
    assert estimate.mean == 0.75
    assert (estimate.coverage, estimate.trials, estimate.tasks) == (0.5, 3, 2)
    assert coverage([group("a", [1.0, None, 0.0, 0.0])]) == 0.75


def test_nothing_rewarded() -> None:
    with pytest.raises(ValueError, match="no trial has a reward"):
        pass_rate([group("a", [None])])


def test_difference_is_paired_by_id_not_by_place() -> None:
    before = [group("a", [0.0, 0.0]), group("b", [1.0, 0.0]), group("c", [1.0, 1.0])]
    after = [group("c", [1.0, 1.0]), group("a", [1.0, 0.0]), group("b", [1.0, 1.0])]
    gain = difference(after, before)
    # gains 0, .5, .5: mean 1/3, s = 0.288675, t(2) = 4.302653
    assert (gain.mean, gain.low, gain.high) == pytest.approx((1 / 3, 1 / 3 - 0.717109, 1.0), abs=1e-5)
    assert (gain.coverage, gain.trials, gain.tasks) == (1.0, 12, 3)


def test_pairing_removes_what_tasks_share() -> None:
    before = [group(str(i), [1.0] * i + [0.0] * (4 - i)) for i in (0, 1, 2, 3)]
    after = [group(str(i), [1.0] * i + [float(i != 2)] + [0.0] * (3 - i)) for i in (0, 1, 2, 3)]
    gain, rate = difference(after, before), pass_rate(after)
    assert gain.high - gain.low < rate.high - rate.low


def test_difference_leaves_out_tasks_measured_on_one_side() -> None:
    gain = difference([group("a", [1.0]), group("b", [None])], [group("a", [0.0]), group("b", [1.0])])
    assert (gain.mean, gain.tasks, gain.coverage) == (1.0, 1, 0.5)
    assert gain.low < 0, "one task proves nothing"


def test_no_difference_has_width() -> None:
    same = [group(str(i), [1.0, 0.0]) for i in range(20)]
    gain = difference(same, same)
    assert gain.mean == 0 and gain.low == pytest.approx(-gain.high) and 0.1 < gain.high < 0.2


def test_difference_needs_one_probe() -> None:
    with pytest.raises(ValueError, match="same tasks"):
        difference([group("a", [1.0])], [group("b", [1.0])])


def test_pass_at_and_pass_all_match_enumeration() -> None:
    from itertools import combinations

    trials = [1, 1, 1, 0, 0, 0, 0]
    for k in range(1, 8):
        draws = list(combinations(trials, k))
        assert pass_at(k, 3, 7) == pytest.approx(sum(any(d) for d in draws) / len(draws))
        assert pass_all(k, 3, 7) == pytest.approx(sum(all(d) for d in draws) / len(draws))
    with pytest.raises(ValueError, match="choose k"):
        pass_at(8, 3, 7)


def _simulated(rng: random.Random, lift: float) -> tuple[bool, bool, bool]:
    """One run of 40 tasks with 4 trials: do the clustered, the paired and the naive interval hold the truth?"""
    tasks = [rng.betavariate(0.4, 0.6) * (1 - lift) for _ in range(40)]
    before = [group(str(i), [float(rng.random() < p) for _ in range(4)]) for i, p in enumerate(tasks)]
    after = [group(str(i), [float(rng.random() < p + lift) for _ in range(4)]) for i, p in enumerate(tasks)]
    truth = 0.4 * (1 - lift)
    rate, gain = pass_rate(before), difference(after, before)
    naive = wilson(sum(g.passes for g in before), 160)
    return rate.low <= truth <= rate.high, gain.low <= lift <= gain.high, naive[0] <= truth <= naive[1]


def test_simulated_coverage() -> None:
    rng = random.Random("coverage")
    runs = [_simulated(rng, 0.2) for _ in range(400)]
    clustered, paired, naive = (sum(held) / len(runs) for held in zip(*runs, strict=True))
    assert 0.92 <= clustered <= 0.98
    assert 0.92 <= paired <= 0.98
    assert naive < 0.85, "the control: ignoring the tasks is over-confident"
