"""Krippendorff's alpha: how far people who score the same items agree beyond what chance gives."""

from __future__ import annotations

from typing import Literal

import numpy as np

from rag_assay.evals.statistics.clusters import Codes, sum_clusters
from rag_assay.evals.statistics.estimate import CONFIDENCE, Estimate, Floats, least_of_all
from rag_assay.evals.statistics.resampling import draws

Level = Literal["nominal", "ordinal", "interval"]
"""How far two values are apart: they differ or not, by the ranks between them, or by their difference."""
RESAMPLES = 2_000
RELIABLE, TENTATIVE = 0.8, 0.667
"""From the first on conclusions can be drawn, from the second on tentative ones (Krippendorff, Human
Communication Research 30(3), 2004, p. 429)."""
FEWEST = 5
"""With fewer items, or clusters of them, a resample tells nothing of other items."""
_EDGE = 1e-4  # shares of resamples that are nearer to 0 or 1 say no more


def krippendorffs_alpha(
    items: Codes, values: Floats, level: Level, seed: int, clusters: Codes | None = None
) -> Estimate:
    """Return Krippendorff's alpha of scores; `n` counts the items that two people or more have scored.

    1 - observed disagreement / disagreement by chance, over all pairs of values of an item (Krippendorff,
    Computing Krippendorff's Alpha-Reliability, 2011). 1: no two differ; 0: as if values were dealt out to
    items; below: they differ systematically.

    The interval is the bootstrap's over the items (or clusters of them), with disagreement by chance computed
    again in each resample (Zapf and others, BMC Medical Research Methodology 16:93, 2016), accelerated and
    corrected for bias (BCa: Efron, JASA 1987), and as much wider as Student's interval is than the normal one
    (Hesterberg, The American Statistician 2015): percentiles alone are too narrow with few items (`make
    bench-agreement`). Hayes' and Krippendorff's own bootstrap (Communication Methods and Measures 2007) draws
    pairs as if those of one item were independent. Agreement without exception leaves nothing to resample:
    for its lower bound people differ in as many items as Wilson's interval allows, and as far as can be.

    Args:
        items: number of the item of each score, from 0, shape (scores,).
        values: the scores, one a person and item, shape (scores,).

    >>> ben, gerry = [1, 1, 2, 2, 4, 3, 3, 3, 5, 4, 4, 1], [2, 1, 2, 2, 2, 3, 3, 3, 5, 4, 4, 4]
    >>> scores = np.array(ben + gerry, float)
    >>> found = krippendorffs_alpha(np.tile(np.arange(12), 2), scores, "nominal", seed=7)
    >>> round(found.value, 3), found.n
    (0.692, 12)
    >>> krippendorffs_alpha(np.array([0, 1]), np.array([5.0, 3.0]), "interval", seed=7).reason
    'no item was scored by two people'
    """
    if not np.isfinite(values).all():
        raise ValueError("a value that is not finite cannot be compared")
    counts, grades = _counts(items, values)
    shared = counts.sum(axis=1) > 1
    n = int(shared.sum())
    if not n:
        return Estimate(None, reason="no item was scored by two people")
    if (counts[shared].sum(axis=0) > 0).sum() < 2:
        return Estimate(None, n=n, reason="all scores of these items are equal")
    pairs = sum_clusters(_coincidences(counts[shared]), _renumbered(clusters, shared))
    value = float(_alphas(pairs.sum(axis=0)[None], grades, level)[0])
    if len(pairs) < FEWEST:
        return Estimate(value, n=n, reason=f"no interval: fewer than {FEWEST} independent items")
    if np.isclose(value, 1.0):
        return Estimate(1.0, _least(pairs, grades, level), 1.0, n)
    low, high = _bca(pairs, grades, level, seed)
    if np.isclose(low, high):
        return Estimate(value, n=n, reason="no interval: people differ in all items alike")
    return Estimate(value, min(low, value), max(high, value), n)


def _counts(items: Codes, values: Floats) -> tuple[Floats, Floats]:
    grades, places = np.unique(values, return_inverse=True)
    many = int(items.max(initial=-1)) + 1
    flat = np.bincount(items * len(grades) + places, minlength=many * len(grades))
    return flat.reshape(many, len(grades)).astype(np.float64), grades


def _renumbered(clusters: Codes | None, kept: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Codes | None:
    return None if clusters is None else np.unique(clusters[kept], return_inverse=True)[1].astype(np.int64)


def _coincidences(counts: Floats) -> Floats:
    """Return the pairs of values in each item, each annotator counting once: shape (items, values²)."""
    values = counts.shape[1]
    pairs = counts[:, :, None] * counts[:, None, :] - counts[:, :, None] * np.eye(values)
    return (pairs / (counts.sum(axis=1) - 1)[:, None, None]).reshape(len(counts), -1)


def _alphas(pairs: Floats, grades: Floats, level: Level) -> Floats:
    """Return alpha of each row of coincidences, shape (rows, values²); NaN where all values are equal."""
    seen = pairs.reshape(-1, len(grades), len(grades))
    often = seen.sum(axis=2)
    apart = _distances(often, grades, level)
    chance = (often[:, :, None] * often[:, None, :] * apart).sum(axis=(1, 2)) / (often.sum(axis=1) - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(chance > 0, 1 - (seen * apart).sum(axis=(1, 2)) / chance, np.nan)


def _distances(often: Floats, grades: Floats, level: Level) -> Floats:
    """Return squared distances, shape (rows, values, values); often: of each value, shape (rows, values)"""
    if level == "nominal":
        return 1 - np.eye(len(grades))[None]
    place = grades[None] if level == "interval" else np.cumsum(often, axis=1) - often / 2
    return np.asarray((place[:, :, None] - place[:, None, :]) ** 2)


def _least(pairs: Floats, grades: Floats, level: Level) -> float:
    often = pairs.sum(axis=0).reshape(len(grades), -1).sum(axis=1)[None]
    apart, n = _distances(often, grades, level)[0], often.sum()
    chance = float(often[0] @ apart @ often[0]) / (n * (n - 1))
    return max(-1.0, 1 - (1 - least_of_all(len(pairs))) * float(apart.max()) / chance)


def _bca(pairs: Floats, grades: Floats, level: Level, seed: int) -> tuple[float, float]:
    from scipy.special import ndtr, ndtri, stdtrit  # 0.2 s, which a run without human ratings does not spend

    groups = len(pairs)
    value = float(_alphas(pairs.sum(axis=0)[None], grades, level)[0])
    drawn = np.concatenate([_alphas(some @ pairs, grades, level) for some in draws(groups, seed, RESAMPLES)])
    drawn = drawn[np.isfinite(drawn)]
    without = _alphas(pairs.sum(axis=0) - pairs, grades, level)
    bends = np.nanmean(without) - without[np.isfinite(without)]
    squares = float((bends**2).sum())
    bend = float((bends**3).sum()) / (6 * squares**1.5) if squares > 0 else 0.0
    below = ((drawn < value).mean() + (drawn <= value).mean()) / 2
    shift = ndtri(np.clip(below, _EDGE, 1 - _EDGE))
    z = float(stdtrit(groups - 1, (1 + CONFIDENCE) / 2)) * (groups / (groups - 1)) ** 0.5
    tails = [ndtr(shift + (shift + end) / max(1 - bend * (shift + end), _EDGE)) for end in (-z, z)]
    low, high = np.quantile(drawn, tails)
    return float(low), float(high)
