"""How good each cell is expected to be on further questions: chance of being best, expected loss, bounds.

Means of near equals are shrunk towards each other: among many cells the one that measured best has been
lucky, too. How far they are shrunk is estimated from how much they differ (empirical Bayes).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rag_assay.evals.statistics.clusters import Codes, effective, sum_clusters
from rag_assay.evals.statistics.resampling import EQUAL, Floats

DRAWS = 4_000
_TAU = np.concatenate(
    [[0.0], np.geomspace(0.001, 0.5, 28)]
)  # true spread of the cells, as a share of the range
_SCALE = 0.05  # of the prior of tau, as a share of the range
_CONTRASTS = 8  # more contrasts of near equals add no degrees of freedom to the noise that they share
_COMPARED = 200  # best cells by their means: those behind them cannot be the best, and would cost most
_CONFIDENCE = 0.95


class Posterior(NamedTuple):
    """What is expected of each cell, as arrays of shape (cells,).

    p_best: chance of being the best one; equal columns share it
    expected_loss: of the leader's true mean less the cell's; 0 of the leader, never below 0 of another one
    p_loss: chance that the cell loses more than the margin against the leader; NaN without a margin
    bound: lower bound of the cell's mean less the best other one's, 95 % for all cells at once (Hsu): above
        -x it is shown to be at most x below the best; NaN where there are too few clusters
    """

    p_best: Floats
    expected_loss: Floats
    p_loss: Floats
    bound: Floats


def posterior(
    table: Floats, seed: int, margin: float, width: float, clusters: Codes | None = None
) -> Posterior:
    """Compare the means of cells on further questions like these.

    The means less their mean are y ~ N(mu, w s^2), mu ~ N(0, tau^2), in the K - 1 contrasts of K cells. s^2
    is the variance of clusters' residuals, one for all cells; w allows for its degrees of freedom; tau has a
    prior with density 1 / (1 + (tau / 0.05)^2). `make bench-verdict` measures how the chances hold.

    Args:
        table: values, the larger the better, shape (questions, cells); NaN where a cell has none.
        seed: the study's.
        margin: a loss that matters, in the metric's unit; NaN: none is stated.
        width: range of the metric, by which the prior is scaled.
        clusters: number of each question's cluster, shape (questions,); None: each is one of its own.

    >>> values = np.array([[0.9, 0.2, 0.2], [0.8, 0.1, 0.1], [0.9, 0.3, 0.3], [0.9, 0.2, 0.2]] * 4)
    >>> found = posterior(values, seed=7, margin=0.02, width=1.0)
    >>> found.p_best.round(2).tolist(), found.expected_loss.round(2).tolist(), found.p_loss.tolist()
    ([1.0, 0.0, 0.0], [0.0, 0.67, 0.67], [0.0, 1.0, 1.0])
    """
    unique, which, shared = np.unique(
        np.nan_to_num(table, nan=np.inf).T, axis=0, return_inverse=True, return_counts=True
    )
    which = which.ravel()
    columns = np.where(np.isinf(unique), np.nan, unique).T
    means, rows = _cluster_rows(columns, clusters)
    groups, cells = rows.shape
    leader = int(np.nanargmax(means))
    if cells < 2:
        alone = np.zeros(table.shape[1])
        return Posterior(np.full(table.shape[1], 1.0 / table.shape[1]), alone, alone, alone)
    sizes = np.arange(len(table)) if clusters is None else clusters
    freedom = max(effective(sizes) - 1.0, 1.0)
    mu = _draws(means - means.mean(), rows, freedom, np.random.default_rng(seed), width)
    first = mu >= mu.max(axis=1, keepdims=True)
    best = (first / first.sum(axis=1, keepdims=True)).mean(axis=0)
    against = mu[:, [leader]] - mu
    loss = np.maximum(against.mean(axis=0), 0.0)
    loss[leader] = 0.0
    bound = _bounds(means, rows, freedom, np.random.default_rng(seed + 1))
    if groups < 2:
        bound = np.full(cells, np.nan)
    risk = (against > margin).mean(axis=0) if np.isfinite(margin) else np.full(cells, np.nan)
    return Posterior(*(column[which] for column in (best / shared, loss, risk, bound)))


def _cluster_rows(table: Floats, clusters: Codes | None) -> tuple[Floats, Floats]:
    """Return the means of the columns, and rows that show how they may vary: shape (clusters, cells).

    The rows are sums of residuals, so that clusters of unequal sizes have their weight; their covariance
    divided by the number of clusters is that of the means. A missing value has no residual.
    """
    centred = table - np.nanmean(table, axis=1, keepdims=True)
    there = ~np.isnan(centred)
    n = np.maximum(there.sum(axis=0), 1)
    means = np.where(there, centred, 0.0).sum(axis=0) / n
    residual = sum_clusters(np.where(there, centred - means, 0.0), clusters)
    rows = residual * (len(residual) / n)
    return means, rows - rows.mean(axis=1, keepdims=True)


def _draws(means: Floats, rows: Floats, freedom: float, chance: np.random.Generator, width: float) -> Floats:
    """Draw true means of the cells, less their mean: shape (draws, cells)."""
    from scipy.special import chdtri

    groups, cells = rows.shape
    noise = max(float((rows**2).sum() / ((groups - 1 or 1) * (cells - 1) * groups)), EQUAL * width**2)
    nu = freedom * min(cells - 1, _CONTRASTS)
    w = nu / chdtri(nu, (np.arange(9) + 0.5) / 9)
    tau = _TAU * width
    prior = np.gradient(_TAU) / (1 + (_TAU / _SCALE) ** 2)
    variance = tau[:, None] ** 2 + w * noise
    chances = np.log(prior)[:, None] - 0.5 * (
        (cells - 1) * np.log(variance) + float(means @ means) / variance
    )
    chances = np.exp(chances - chances.max()).ravel()
    drawn = chance.choice(len(chances), size=DRAWS, p=chances / chances.sum())
    spread = tau[drawn // len(w)] ** 2
    error = w[drawn % len(w)] * noise
    kept = (spread / (spread + error))[:, None]
    z = chance.standard_normal((DRAWS, cells))
    return kept * means + np.sqrt(kept * error[:, None]) * (z - z.mean(axis=1, keepdims=True))


def _bounds(means: Floats, rows: Floats, freedom: float, chance: np.random.Generator) -> Floats:
    """Return Hsu's simultaneous lower bounds of each mean less the best other one (JASA 1984, 1996).

    The covariance is shrunk to compound symmetry by the weight of Ledoit and Wolf (J. Multivariate Anal.
    2004): that of few clusters alone covers too seldom.
    """
    groups = len(rows)
    order = np.argsort(-means, kind="stable")[:_COMPARED]
    y, cells = means[order], len(order)
    half, variances = _covariance(rows[:, order], groups)
    diagonal = np.diag(variances)
    s = np.sqrt(np.maximum(diagonal[:, None] + diagonal - 2 * variances, 1e-12 * diagonal.max() + 1e-300))
    z = chance.standard_normal((1_000, cells)) @ half.T
    z /= np.sqrt(chance.chisquare(freedom, 1_000) / freedom)[:, None]
    reach = np.array(
        [np.quantile(((z[:, [j]] - z) / s[j]).max(axis=1), _CONFIDENCE) * s[j] for j in range(cells)]
    )
    np.fill_diagonal(reach, np.inf)
    upper = (y[:, None] - y + reach).min(axis=1)
    candidates = upper > 0
    found = np.full(len(means), -np.inf)
    for i in range(cells):
        others = candidates & (np.arange(cells) != i)
        gaps = y[i] - y[others] - reach[others, i]
        found[order[i]] = min(0.0, float(gaps.min())) if others.any() else 0.0
    return found


def _covariance(rows: Floats, groups: int) -> tuple[Floats, Floats]:
    """Return a root of the shrunk covariance of the means, and that covariance."""
    cells = rows.shape[1]
    x = rows - rows.mean(axis=1, keepdims=True)
    raw = x.T @ x / max(groups - 1, 1)
    target = np.trace(raw) / (cells - 1) * (np.eye(cells) - 1 / cells)
    apart = float(((raw - target) ** 2).sum())
    biased = raw * ((groups - 1) / groups)
    noise = float(((x**2).sum(axis=1) ** 2).sum() / groups**2 - (biased**2).sum() / groups)
    weight = 1.0 if apart <= 0 else min(1.0, max(0.0, noise / apart))
    shrunk = ((1 - weight) * raw + weight * target) / groups
    values, vectors = np.linalg.eigh(shrunk)
    return vectors * np.sqrt(np.maximum(values, 0.0)), shrunk
