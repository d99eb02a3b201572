"""Cohen's kappa: how far two raters agree beyond what chance gives."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from rag_assay.evals.statistics.clusters import Codes, sum_clusters
from rag_assay.evals.statistics.estimate import Estimate, Floats, Z, paired
from rag_assay.evals.statistics.shares import least_of_all

Weights = Literal["none", "linear", "quadratic"]


def cohens_kappa(
    one: Floats, other: Floats, weights: Weights = "none", clusters: Codes | None = None
) -> Estimate:
    """Return Cohen's kappa of two raters of the same cases (Educational and Psychological Measurement 1960).

    (observed - chance) / (1 - chance), agreement by chance being that of raters who give each grade as often
    and know nothing of the case. Weighted, a disagreement counts by the distance of the two grades, or by its
    square (Cohen, Psychological Bulletin 1968). The standard error is that of Fleiss, Cohen and Everitt
    (Psychological Bulletin 1969), which is that of a mean of what each case adds; with clusters, of what each
    of them does. Agreement without exception has none: the interval is then that of Wilson's for the observed
    agreement.

    Args:
        one, other: grades, shape (n,), finite; the categories are all that either gives, and for weights
            their numbers are what their distance is taken of.
        weights: what a disagreement counts.
        clusters: number of each case's cluster, shape (n,); None: each is one of its own.

    >>> cohens_kappa(np.array([1.0, 1, 0, 0]), np.array([1.0, 0, 0, 0])).value
    0.5
    >>> cohens_kappa(np.array([1.0, 1]), np.array([1.0, 1])).reason
    'both raters give one grade to all cases'
    """
    paired(one, other)
    n = len(one)
    if n < 2:
        return Estimate(None, n=n, reason="there are fewer than two cases")
    grades, places = np.unique(np.concatenate([one, other]), return_inverse=True)
    if len(grades) == 1:
        return Estimate(None, n=n, reason="both raters give one grade to all cases")
    table = np.zeros((len(grades), len(grades)))
    np.add.at(table, (places[:n], places[n:]), 1 / n)
    credit = _credit(grades, weights)
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    observed, chance = float((credit * table).sum()), float(rows @ credit @ columns)
    kappa = (observed - chance) / (1 - chance)
    groups = n if clusters is None else len(np.unique(clusters))
    if groups < 2:
        return Estimate(kappa, n=n, reason="no interval: these cases stand or fall together")
    if math.isclose(observed, 1.0):
        return Estimate(1.0, max(-1.0, (least_of_all(groups) - chance) / (1 - chance)), 1.0, n)
    means = (credit @ columns)[:, None] + (credit.T @ rows)[None, :]
    added = (credit - means * (1 - kappa))[places[:n], places[n:]]
    sums = sum_clusters((added - added.mean())[:, None], clusters)
    often = 1.0 if clusters is None else groups / (groups - 1)
    half = Z * math.sqrt(often * float((sums**2).sum())) / (n * (1 - chance))
    return Estimate(kappa, max(-1.0, kappa - half), min(1.0, kappa + half), n)


def _credit(grades: Floats, weights: Weights) -> Floats:
    """Return what each pair of grades counts as agreement, 1 for equal ones: shape (grades, grades)."""
    if weights == "none":
        return np.eye(len(grades))
    distance = np.abs(grades[:, None] - grades[None, :]) / (grades[-1] - grades[0])
    return 1 - distance if weights == "linear" else 1 - distance**2
