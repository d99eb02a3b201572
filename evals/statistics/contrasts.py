"""Cells against the one that leads: which differ by both tests, and what could have been found."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evals.statistics.clusters import Codes
from evals.statistics.permutation import step_down
from evals.statistics.power import detectable, questions_needed
from evals.statistics.resampling import Floats
from evals.statistics.significance import ALPHA, RESAMPLES, Differences, holm, paired_bootstrap


class Contrasts(NamedTuple):
    """What is found of each cell's differences to the leader, as arrays of shape (cells,).

    differences: their means with intervals
    p_bootstrap: of the paired bootstrap, adjusted by Holm's correction
    p_permutation: of the paired permutation test, adjusted for a leader that was found in the same data
    detectable: the smallest true difference that would be found four times out of five
    needed: how many questions would find this one, NaN where it is found or out of reach
    """

    differences: Differences
    p_bootstrap: Floats
    p_permutation: Floats
    detectable: Floats
    needed: Floats

    @property
    def p(self) -> Floats:
        """The larger of the two: below `ALPHA` both tests tell the cell apart."""
        return np.asarray(np.maximum(self.p_bootstrap, self.p_permutation))


def contrasts(
    differences: Floats,
    seed: int,
    clusters: Codes | None = None,
    *,
    binary: bool = False,
    resamples: int = RESAMPLES,
) -> Contrasts:
    """Compare cells with their leader by the paired bootstrap and the paired permutation test.

    The bootstrap is right for any distribution if there are many questions, the permutation test for few
    if equal cells differ either way alike. What both tell apart is told apart.

    Args:
        differences: values less the leader's, shape (questions, cells); NaN where either has none.
        seed: the study's.
        clusters: number of each question's cluster, shape (questions,); None: each is one of its own.
        binary: the values are all 0 or 1.
        resamples: of each test.

    >>> found = contrasts(np.array([[-0.5, 0.0]] * 20), seed=7)
    >>> (found.p < ALPHA).tolist(), found.differences.mean.tolist()
    ([True, False], [-0.5, 0.0])
    """
    found = paired_bootstrap(differences, seed, resamples, clusters, binary=binary)
    flipped = step_down(differences, seed, resamples, clusters)
    p_bootstrap = holm(found.p)
    n = (~np.isnan(differences)).sum(axis=0).astype(np.float64)
    needed = questions_needed(found.mean, found.error, n, flipped.critical, differences.shape[1])
    apart = np.maximum(p_bootstrap, flipped.p) < ALPHA
    return Contrasts(
        found,
        p_bootstrap,
        flipped.p,
        detectable(found.error, flipped.critical),
        np.where(apart, np.nan, needed),
    )
