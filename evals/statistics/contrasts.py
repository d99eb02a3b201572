"""Cells against the one that leads: which are significantly different, and what could have been found."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rag_assay.evals.statistics.clusters import Codes
from rag_assay.evals.statistics.permutation import step_down
from rag_assay.evals.statistics.resampling import Floats
from rag_assay.evals.statistics.significance import ALPHA, RESAMPLES, Differences, paired_bootstrap

POWER = 0.8
MOST_QUESTIONS = 1_000_000  # larger plans are not realistic


def detectable(error: Floats, critical: float) -> Floats:
    """Return the smallest true difference that a test would find four times out of five.

    A difference is found where the measured one reaches the critical one; it is about normal around the true
    one. So it is critical + z * error, z the normal quantile of the power (Cohen, Statistical Power Analysis,
    1988, ch. 2; for retrieval: Sakai, Information Retrieval Journal 2016). Infinite where no difference could
    have been found, NaN without an error.

    Args:
        error: standard error of each mean difference.
        critical: the mean difference that had to be reached, adjusted for the number of comparisons.

    >>> detectable(np.array([0.02, np.nan]), 0.0392).round(3).tolist()
    [0.056, nan]
    """
    from scipy.special import ndtri

    return np.asarray(critical + float(ndtri(POWER)) * error)


def questions_needed(
    difference: Floats, error: Floats, n: Floats, critical: float, comparisons: int
) -> Floats:
    """Return how many questions would find each difference four times out of five, if it is what it seems.

    What is detectable falls with the root of the number of questions (and of their clusters, which grow
    alike): n * (detectable / difference)^2. NaN where the two are equal so far, or more than a million would
    be needed.

    Args:
        difference, error: mean and standard error of each comparison.
        n: questions of each.
        critical: the mean difference that had to be reached; if none can be, that of Šidák's normal quantile.
        comparisons: how many there are.

    >>> differences, error, n = np.array([0.05, 0.1, 0.0]), np.full(3, 0.05), np.full(3, 100.0)
    >>> questions_needed(differences, error, n, 0.098, 3).tolist()
    [785.0, 197.0, nan]
    """
    from scipy.special import ndtri

    reached = np.full(error.shape, critical)
    if not np.isfinite(critical):
        reached = -float(ndtri((1 - (1 - ALPHA) ** (1 / max(comparisons, 1))) / 2)) * error
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.ceil(n * ((reached + float(ndtri(POWER)) * error) / np.abs(difference)) ** 2)
    return np.where((error > 0) & (found <= MOST_QUESTIONS), found, np.nan)


class Contrasts(NamedTuple):
    """Comparison of each cell with the leader, as arrays of shape (cells,).

    p: of the step-down permutation test; a cell is significantly different below `ALPHA`
    detectable: the smallest true difference that would be found four times out of five
    needed: how many questions would find this one, NaN where it is found or out of reach
    """

    differences: Differences
    p: Floats
    detectable: Floats
    needed: Floats


def contrasts(
    differences: Floats,
    seed: int,
    clusters: Codes | None = None,
    *,
    binary: bool = False,
    resamples: int = RESAMPLES,
) -> Contrasts:
    """Compare cells with their leader by the paired permutation test over clusters of questions.

    Args:
        differences: values less the leader's, shape (questions, cells); NaN where either has none.
        seed: the study's.
        clusters: number of each question's cluster, shape (questions,); None: each is one of its own.
        binary: the values are all 0 or 1.
        resamples: of the test and of the intervals.

    >>> found = contrasts(np.array([[-0.5, 0.0]] * 20), seed=7)
    >>> (found.p < ALPHA).tolist(), found.differences.mean.tolist()
    ([True, False], [-0.5, 0.0])
    """
    found = paired_bootstrap(differences, seed, resamples, clusters, binary=binary)
    flipped = step_down(differences, seed, resamples, clusters)
    n = (~np.isnan(differences)).sum(axis=0).astype(np.float64)
    needed = questions_needed(found.mean, found.error, n, flipped.critical, differences.shape[1])
    return Contrasts(
        found,
        flipped.p,
        detectable(found.error, flipped.critical),
        np.where(flipped.p < ALPHA, np.nan, needed),
    )
