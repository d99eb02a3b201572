"""Cells against the one that leads: which are significantly different, and what could have been found."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rag_assay.evals.statistics.clusters import Codes
from rag_assay.evals.statistics.permutation import step_down
from rag_assay.evals.statistics.power import detectable, questions_needed
from rag_assay.evals.statistics.resampling import Floats
from rag_assay.evals.statistics.significance import ALPHA, RESAMPLES, Differences, paired_bootstrap


class Contrasts(NamedTuple):
    """Comparison of each cell with the leader, as arrays of shape (cells,).

    differences: their means with intervals, each of this difference alone
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
