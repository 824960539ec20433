"""Tracking: the mix of levels that a posterior of P(pass | capability, level) calls for.

Shapes: A pairs of capability and level, L levels of one capability, S samples of the posterior.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields

import numpy as np

from clawloop.synthesis.difficulty.tracking.posterior import Array, Prior, in_band, posterior
from clawloop.types import DiagnosisReport

_SAMPLES = 512
_LOGITS = np.linspace(-15.0, 15.0, 601)
_TENTHS = np.arange(1, 10) / 10


class Tracking:
    """Chooses, per capability, the mix of levels that puts most tasks into the admission band (ours; paper, D.2).

    logit P(pass) is a Gaussian process over (capability, level, iteration), see `Prior`; tasks of one cell differ by a
    normal offset whose spread is chosen by the evidence. The passes so far are its binomial observations, and the
    posterior is Laplace's. For iteration k + 1 the mix w of a capability's levels maximises

        E[(w . q)^(1 - caution)],    q_l = P(low <= passes <= high | level l),

    over the posterior of q: where it is unsure how far the agent has come, levels whose fortunes differ insure each
    other, and what they show teaches the next choice. No level more than `step` above the highest tried is chosen.
    What is known lies in the report's evidence, so the choice is a pure function of the report.

    Args:
        low: N_l of the band.
        high: N_h of the band.
        rollouts: N.
        top: the highest level.
        step: how far above the highest tried level a capability may go; before any is tried all are open.
        caution: 0 asks for most expected tasks alone; towards 1 a capability without any counts ever worse.
        prior: values of `Prior` that are not its defaults.
    """

    def __init__(
        self,
        low: int = 1,
        high: int = 5,
        rollouts: int = 8,
        top: int = 4,
        step: int = 1,
        caution: float = 0.5,
        prior: Mapping[str, float] | None = None,
    ) -> None:
        if not 0 < low <= high < rollouts or top < 0 or step < 1 or not 0 <= caution < 1:
            raise ValueError(
                "difficulty tracking needs 0 < low <= high < rollouts, top >= 0, step >= 1 and 0 <= caution < 1."
            )
        if unknown := set(prior or {}) - {field.name for field in fields(Prior)}:
            known = ", ".join(field.name for field in fields(Prior))
            raise ValueError(f"difficulty.prior has no {min(unknown)!r}; it knows {known}.")
        self._low, self._high, self._rollouts = low, high, rollouts
        self._top, self._step, self._caution, self._prior = top, step, caution, Prior(**(prior or {}))

    def mix(self, capabilities: Sequence[str], report: DiagnosisReport) -> Mapping[str, Mapping[int, float]]:
        """For each capability the share of its tasks at each level, for iteration report.k + 1."""
        if not capabilities:
            return {}
        levels = self._top + 1
        ahead = [(name, level, report.k + 1) for name in capabilities for level in range(levels)]
        mean, covariance, spread = posterior(self._prior, ahead, report.evidence)
        f_SA = np.random.default_rng(0).multivariate_normal(mean, covariance, _SAMPLES, method="svd")
        q_SA = np.interp(f_SA, _LOGITS, in_band(_LOGITS, spread, self._low, self._high, self._rollouts))
        chosen = {}
        for index, name in enumerate(capabilities):
            tried = [e.level for e in report.evidence if e.capability == name]
            open_levels = min(max(tried) + self._step, self._top) + 1 if tried else levels
            q_SL = q_SA[:, index * levels : index * levels + open_levels]
            chosen[name] = {level: w for level, w in enumerate(_portfolio(q_SL, self._caution)) if w > 0}
        return chosen


def _portfolio(q_SL: Array, caution: float) -> tuple[float, ...]:
    """The mix over L levels, in tenths and of at most two levels, of highest mean utility over S."""
    size = q_SL.shape[1]
    pure = np.eye(size)
    pairs = [part * pure[a] + (1 - part) * pure[b] for a in range(size) for b in range(a) for part in _TENTHS]
    mixes = np.array([*pure, *pairs])
    utility = ((q_SL @ mixes.T) ** (1 - caution)).mean(axis=0)
    return tuple(float(round(share, 6)) for share in mixes[int(np.argmax(utility))])
