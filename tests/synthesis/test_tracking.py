"""The posterior of the tracking schedule, and what it makes of it."""

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom

from clawloop.synthesis.difficulty.tracking.posterior import SPREADS, Prior, in_band, posterior
from clawloop.synthesis.difficulty.tracking.tracking import Tracking
from clawloop.types import DiagnosisReport, Evidence

PRIOR = Prior()


def tasks(passes: int, count: int = 16) -> tuple[tuple[int, int], ...]:
    return ((passes, 8),) * count


def mean(evidence: list[Evidence], capability: str, level: int, k: int) -> float:
    return float(posterior(PRIOR, [(capability, level, k)], evidence)[0][0])


def deviation(evidence: list[Evidence], capability: str, level: int, k: int) -> float:
    return float(posterior(PRIOR, [(capability, level, k)], evidence)[1][0, 0] ** 0.5)


@pytest.mark.parametrize(("logit", "spread"), [(0.0, 0.0), (-1.0, 1.0), (2.0, 2.5)])
def test_in_band_is_the_binomial_averaged_over_tasks(logit: float, spread: float) -> None:
    x = np.linspace(-10, 10, 20_001)
    weights = np.exp(-(x**2) / 2)
    p = expit(logit + spread * x)
    expected = np.average(binom.cdf(5, 8, p) - binom.cdf(0, 8, p), weights=weights)
    assert float(in_band(np.array(logit), spread, 1, 5, 8)) == pytest.approx(expected, abs=2e-3)


def test_the_posterior_of_one_cell_is_near_the_exact_one() -> None:
    """Against integration on a grid, with the spread that the posterior chose."""
    seen = [Evidence(1, "audit", 1, ((2, 8), (3, 8), (5, 8), (1, 8), (4, 8), (2, 8)))]
    found, covariance, spread = posterior(PRIOR, [("audit", 1, 1)], seen)
    assert spread in SPREADS
    nodes = np.linspace(-6, 6, 401)
    weights = np.exp(-(nodes**2) / 2)
    f = np.linspace(-8, 8, 1601)
    centre, variance = PRIOR.means([("audit", 1, 1)])[0], PRIOR.covariance([("audit", 1, 1)], [("audit", 1, 1)])[0, 0]
    log = -((f - centre) ** 2) / (2 * variance)
    for y, n in seen[0].tasks:
        log += np.log(np.average(binom.pmf(y, n, expit(f[:, None] + spread * nodes)), axis=1, weights=weights))
    density = np.exp(log - log.max())
    exact = np.average(f, weights=density)
    assert found[0] == pytest.approx(exact, abs=0.05)
    assert covariance[0, 0] == pytest.approx(np.average((f - exact) ** 2, weights=density), rel=0.1)


def test_what_one_capability_shows_is_believed_of_others_but_less() -> None:
    seen = [Evidence(1, "audit", 0, tasks(8))]
    nothing = mean([], "audit", 0, 2)
    assert nothing == mean([], "merge", 0, 2)
    assert nothing + 0.3 < mean(seen, "merge", 0, 2) < mean(seen, "audit", 0, 2)
    assert mean(seen, "audit", 3, 2) > mean([], "audit", 3, 2)
    assert deviation(seen, "audit", 0, 2) < deviation(seen, "merge", 0, 2) < deviation([], "merge", 0, 2)


def test_what_was_seen_long_ago_is_less_certain_and_newer_trials_count_more() -> None:
    old = [Evidence(1, "audit", 0, tasks(1))]
    assert deviation(old, "audit", 0, 2) < deviation(old, "audit", 0, 4)
    both = [*old, Evidence(2, "audit", 0, tasks(7))]
    other = [Evidence(1, "audit", 0, tasks(7)), Evidence(2, "audit", 0, tasks(1))]
    assert mean(both, "audit", 0, 3) > 1 > -1 > mean(other, "audit", 0, 3)


def test_trials_after_training_say_how_far_it_came_beyond_what_their_choice_explains() -> None:
    def seen(after: int) -> list[Evidence]:
        return [Evidence(1, "audit", 1, tasks(3), ((3, 8, after, 1),) * 6)]

    without = [Evidence(1, "audit", 1, tasks(3))]
    assert mean(seen(0), "audit", 1, 2) < mean(without, "audit", 1, 2) < mean(seen(1), "audit", 1, 2)
    spread_out = tuple((y, 8) for y in (0, 0, 0, 0, 0, 0, 8, 8, 8, 8, 8, 8, 4, 4))
    easy = [Evidence(1, "audit", 1, spread_out, ((8, 8, 1, 1),) * 6)]
    middling = [Evidence(1, "audit", 1, spread_out, ((4, 8, 1, 1),) * 6)]
    assert mean(easy, "audit", 1, 2) < mean(middling, "audit", 1, 2)


def test_levels_follow_the_agent_both_ways() -> None:
    def likeliest(passes: int, level: int) -> float:
        report = DiagnosisReport(1, evidence=(Evidence(1, "audit", level, tasks(passes)),))
        mix = Tracking().mix(["audit"], report)["audit"]
        return sum(at * share for at, share in mix.items())

    assert likeliest(8, 1) == 2
    assert likeliest(0, 3) < 3
    assert likeliest(3, 2) == pytest.approx(2, abs=0.5)


def test_no_level_is_far_above_what_was_tried() -> None:
    report = DiagnosisReport(1, evidence=(Evidence(1, "audit", 0, tasks(8)), Evidence(1, "merge", 2, tasks(8))))
    mix = Tracking(step=1).mix(["audit", "merge"], report)
    assert mix["audit"] == {1: 1.0} and mix["merge"] == {3: 1.0}
    assert Tracking(step=2).mix(["audit"], report)["audit"] != mix["audit"]


def test_a_mix_is_a_pure_choice_of_the_report() -> None:
    empty = DiagnosisReport.empty()
    report = DiagnosisReport(1, evidence=(Evidence(1, "audit", 0, tasks(5)), Evidence(1, "merge", 0, tasks(7))))
    for seen in (empty, report):
        mix = Tracking().mix(["audit", "merge", "rates"], seen)
        assert mix == Tracking().mix(["audit", "merge", "rates"], seen)
        assert list(mix) == ["audit", "merge", "rates"]
        assert all(sum(shares.values()) == pytest.approx(1) for shares in mix.values())
    assert Tracking().mix([], report) == {}
    assert all(len(shares) == 1 for shares in Tracking(caution=0.0).mix(["audit", "merge"], report).values())


def test_unsure_of_the_agent_it_spreads_over_levels() -> None:
    assert len(Tracking(caution=0.5).mix(["audit"], DiagnosisReport.empty())["audit"]) == 2


def test_arguments_are_checked() -> None:
    with pytest.raises(ValueError, match="difficulty tracking needs"):
        Tracking(low=5, high=8, rollouts=8)
    with pytest.raises(ValueError, match=r"difficulty\.prior has no 'levle'"):
        Tracking(prior={"levle": 1.0})
