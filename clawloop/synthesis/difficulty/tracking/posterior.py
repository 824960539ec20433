"""A posterior of logit P(pass | capability, level, iteration), and what it says of the admission band.

Shapes: C cells (capability, level, iteration) that were tried, A cells that are asked for, R rows of equal
observations, Z nodes of quadrature.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.special import expit, gammaln, log_expit, logsumexp

from clawloop.types import Evidence

Array: TypeAlias = NDArray[np.float64]
Cell: TypeAlias = tuple[str, int, int]
SPREADS = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
_NODES, _STEPS, _UNSEEN_SPREAD = 32, 60, 1.0


@dataclass(frozen=True, slots=True)
class Prior:
    """What is believed of logit P(pass) before anything is tried, in logits; the rest are standard deviations.

    The mean at (level l, iteration k) is `mean` - `slope` * l + `growth` * (k - 1). Around it vary, for all
    capabilities together and for each on its own, the intercept (`shared`, `own`), the slope (`slope_shared`,
    `slope_own`), single levels (`level_shared`, `level_own`), and over iterations a random walk (`drift_shared`,
    `drift_own`) and a trend (`trend`).
    """

    mean: float = 1.0
    slope: float = 1.0
    growth: float = 0.3
    shared: float = 1.5
    own: float = 0.7
    slope_shared: float = 0.5
    slope_own: float = 0.3
    level_shared: float = 0.3
    level_own: float = 0.3
    drift_shared: float = 0.5
    drift_own: float = 0.4
    trend: float = 0.3

    def means(self, cells: Sequence[Cell]) -> Array:
        """The prior mean of each cell, (C,)."""
        return np.array([self.mean - self.slope * level + self.growth * (k - 1) for _, level, k in cells])

    def covariance(self, rows: Sequence[Cell], columns: Sequence[Cell]) -> Array:
        """The prior covariance of two lists of cells: partial pooling is what their cells have in common."""
        own = np.array([[float(a == b) for b, _, _ in columns] for a, _, _ in rows]).reshape(len(rows), len(columns))
        level_a, level_b = (np.array([[level for _, level, _ in cells]], dtype=float) for cells in (rows, columns))
        k_a, k_b = (np.array([[k - 1 for _, _, k in cells]], dtype=float) for cells in (rows, columns))
        slopes, walk, trend = level_a.T * level_b, np.minimum(k_a.T, k_b), k_a.T * k_b
        same_level = (level_b == level_a.T).astype(float)

        def pooled(shared: float, alone: float, kernel: Array | float) -> Array:
            return (shared**2 + alone**2 * own) * kernel

        return np.asarray(
            pooled(self.shared, self.own, 1.0)
            + pooled(self.slope_shared, self.slope_own, slopes)
            + pooled(self.level_shared, self.level_own, same_level)
            + pooled(self.drift_shared, self.drift_own, walk)
            + self.trend**2 * trend
        )


def posterior(prior: Prior, asked: Sequence[Cell], evidence: Sequence[Evidence]) -> tuple[Array, Array, float]:
    """Mean (A,) and covariance (A, A) of the logit at the cells asked for, and the spread of tasks within a cell.

    Tasks of one cell differ by a normal offset; of the spreads tried, the one of highest evidence is taken. The trials
    after training are of theta_k, which iteration k + 1 starts from, so they are observations of that iteration. Their
    tasks were chosen by the band: each brings the offsets that its passes at admission leave likely, at the mode of a
    first fit without such trials.
    """
    mean, covariance = prior.means(asked), prior.covariance(asked, asked)
    tried = [cell for cell in evidence if cell.tasks]
    if not tried:
        return mean, covariance, _UNSEEN_SPREAD
    before: list[Cell] = [(cell.capability, cell.level, cell.k) for cell in tried]
    cells = list(dict.fromkeys(before + [(c.capability, c.level, c.k + 1) for c in tried if c.held_out]))
    at, around = prior.means(cells), prior.covariance(cells, cells)
    fits = []
    for spread in SPREADS:
        rows = _Rows.at_admission(tried, cells, spread)
        fit = _laplace(at, around, rows)
        if len(cells) > len(before):
            fit = _laplace(at, around, rows.and_after(tried, cells, fit.f))
        fits.append(fit)
    best = max(fits, key=lambda fit: fit.evidence)
    cross = prior.covariance(asked, cells)
    half = solve_triangular(best.factor, best.root_W[:, None] * cross.T, lower=True)
    return mean + cross @ best.slope, covariance - half.T @ half, SPREADS[fits.index(best)]


def in_band(f: Array, spread: float, low: int, high: int, rollouts: int) -> Array:
    """P(low <= passes <= high of `rollouts`) where logit P(pass) of a task is normal around `f`, of any shape.

    >>> float(in_band(np.array(0.0), 0.0, 1, 1, 2).round(6))
    0.5
    """
    nodes, weights = _normal()
    y = np.arange(low, high + 1, dtype=float)
    log_choose = gammaln(rollouts + 1) - gammaln(y + 1) - gammaln(rollouts - y + 1)
    x = f[..., None, None] + spread * nodes[:, None]
    p = np.exp(log_choose + y * log_expit(x) + (rollouts - y) * log_expit(-x)).sum(axis=-1)
    return np.asarray(p @ weights)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Observations, equal ones counted together: passes y of n in a cell, for offsets (Z,) of log weights (R, Z)."""

    cell_R: NDArray[np.intp]
    y_R: Array
    n_R: Array
    times_R: Array
    weights_RZ: Array
    offsets_Z: Array

    @classmethod
    def at_admission(cls, tried: Sequence[Evidence], cells: Sequence[Cell], spread: float) -> "_Rows":
        """The trials of each task at admission, its offset normal."""
        nodes, weights = _normal()
        place = {cell: index for index, cell in enumerate(cells)}
        counted = Counter((place[e.capability, e.level, e.k], *task) for e in tried for task in e.tasks)
        cell, y, n = np.array(list(counted), dtype=float).T
        log_weights = np.tile(np.log(weights), (len(y), 1))
        times = np.array(list(counted.values()), dtype=float)
        return cls(cell.astype(np.intp), y, n, times, log_weights, spread * nodes)

    def and_after(self, tried: Sequence[Evidence], cells: Sequence[Cell], f_C: Array) -> "_Rows":
        """With the trials after training, their offsets weighed by what admission showed, where the logit was f."""
        place = {cell: index for index, cell in enumerate(cells)}
        counted = Counter(
            (place[e.capability, e.level, e.k + 1], place[e.capability, e.level, e.k], *task)
            for e in tried
            for task in e.held_out
        )
        cell, old, y_old, n_old, y, n = np.array(list(counted), dtype=float).T
        _, weights = _normal()
        log_weights = np.log(weights) + _log_binomial(f_C[old.astype(np.intp)][:, None] + self.offsets_Z, y_old, n_old)
        log_weights -= logsumexp(log_weights, axis=1, keepdims=True)
        return _Rows(
            np.concatenate([self.cell_R, cell.astype(np.intp)]),
            np.concatenate([self.y_R, y]),
            np.concatenate([self.n_R, n]),
            np.concatenate([self.times_R, np.array(list(counted.values()), dtype=float)]),
            np.concatenate([self.weights_RZ, log_weights]),
            self.offsets_Z,
        )

    def likelihood(self, f_C: Array) -> tuple[float, Array, Array]:
        """Log likelihood of all passes, its gradient (C,) and its negative curvature (C,) in f."""
        x_RZ = f_C[self.cell_R][:, None] + self.offsets_Z
        terms = self.weights_RZ + _log_binomial(x_RZ, self.y_R, self.n_R)
        total = logsumexp(terms, axis=1, keepdims=True)
        share, p, n = np.exp(terms - total), expit(x_RZ), self.n_R[:, None]
        residual = self.y_R[:, None] - n * p
        first = (share * residual).sum(axis=1)
        second = (share * (residual**2 - n * p * (1 - p))).sum(axis=1) - first**2
        gradient = np.bincount(self.cell_R, self.times_R * first, len(f_C)).astype(float)
        curvature = np.bincount(self.cell_R, -self.times_R * second, len(f_C)).astype(float)
        return float(self.times_R @ total[:, 0]), gradient, np.maximum(curvature, 1e-3)


def _log_binomial(x_RZ: Array, y_R: Array, n_R: Array) -> Array:
    """Log likelihood, (R, Z), of y passes in n trials at logit x, without its constant."""
    log_p = log_expit(x_RZ)
    return np.asarray(y_R[:, None] * log_p + (n_R - y_R)[:, None] * (log_p - x_RZ))


@dataclass(frozen=True, slots=True)
class _Fit:
    """Laplace's approximation at its mode f (C,); `slope` is K^-1 (f - mean)."""

    evidence: float
    f: Array
    slope: Array
    root_W: Array
    factor: Array


def _laplace(mean: Array, covariance: Array, rows: _Rows) -> _Fit:
    """Newton's method for the mode (Rasmussen and Williams, Gaussian Processes for Machine Learning, Algorithm 3.1).

    The curvature of the likelihood may be negative far from the mode; it is bounded below, and a step that lowers the
    objective is halved.
    """
    slope, f = np.zeros(len(mean)), mean
    objective, gradient, W = rows.likelihood(f)
    for _ in range(_STEPS):
        root, factor = _factor(covariance, W)
        b = W * (f - mean) + gradient
        target = b - root * cho_solve((factor, True), root * (covariance @ b))
        rate = 1.0
        while True:
            trial = slope + rate * (target - slope)
            f = mean + covariance @ trial
            likelihood, gradient, W = rows.likelihood(f)
            now = likelihood - 0.5 * float(trial @ (f - mean))
            if now >= objective or rate < 1e-4:
                break
            rate /= 2
        gain, slope, objective = now - objective, trial, now
        if abs(gain) < 1e-6 * (1 + abs(objective)):
            break
    root, factor = _factor(covariance, W)
    return _Fit(objective - float(np.log(np.diag(factor)).sum()), f, slope, root, factor)


def _factor(covariance: Array, W: Array) -> tuple[Array, Array]:
    root = np.sqrt(W)
    return root, cholesky(np.eye(len(W)) + root[:, None] * covariance * root[None, :], lower=True)


@cache
def _normal() -> tuple[Array, Array]:
    """Nodes and weights of Gauss-Hermite quadrature for a standard normal."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    return nodes, weights / weights.sum()
