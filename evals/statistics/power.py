"""What a study could have found, and how many questions would find what it has not."""

from __future__ import annotations

import numpy as np

from evals.statistics.resampling import Floats
from evals.statistics.significance import ALPHA

POWER = 0.8
MOST_QUESTIONS = 1_000_000  # more than that nobody will ask


def detectable(error: Floats, critical: float) -> Floats:
    """Return the smallest true difference that a test would find four times out of five.

    A difference is found where its t reaches the critical one; its t is about normal around difference /
    error. So it is (critical + z) * error, z the normal quantile of the power (Cohen, Statistical Power
    Analysis, 1988, ch. 2; for retrieval: Sakai, Information Retrieval Journal 2016). Infinite where no
    difference could have been found, NaN without an error.

    Args:
        error: standard error of each mean difference.
        critical: |t| that it had to reach, adjusted for the number of comparisons.

    >>> detectable(np.array([0.02, np.nan]), 1.96).round(3).tolist()
    [0.056, nan]
    """
    from scipy.special import ndtri

    with np.errstate(invalid="ignore"):
        return np.asarray((critical + float(ndtri(POWER))) * error)


def questions_needed(
    difference: Floats, error: Floats, n: Floats, critical: float, comparisons: int
) -> Floats:
    """Return how many questions would find each difference four times out of five, if it is what it seems.

    The error falls with the root of the number of questions (and of their clusters, which grow alike): n *
    (detectable / difference)^2. NaN where the two are equal so far, or more than a million would be needed.

    Args:
        difference, error: mean and standard error of each comparison.
        n: questions of each.
        critical: |t| that they had to reach; if no t can reach it, Šidák's normal quantile is.
        comparisons: how many there are.

    >>> differences, error, n = np.array([0.05, 0.1, 0.0]), np.full(3, 0.05), np.full(3, 100.0)
    >>> questions_needed(differences, error, n, 1.96, 3).tolist()
    [785.0, 197.0, nan]
    """
    from scipy.special import ndtri

    if not np.isfinite(critical):
        critical = -float(ndtri((1 - (1 - ALPHA) ** (1 / max(comparisons, 1))) / 2))
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.ceil(n * (detectable(error, critical) / np.abs(difference)) ** 2)
    return np.where((error > 0) & (found <= MOST_QUESTIONS), found, np.nan)
