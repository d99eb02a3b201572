"""Paired permutation tests: what if each cluster's difference had the other sign?

If two cells are alike, either could have given either value of a question, so that every choice of signs of
the differences is as likely as the one that was seen (Fisher 1935; for retrieval: Smucker, Allan and
Carterette, CIKM 2007). With few clusters all choices are tried, and p is exact; else some are drawn.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evals.statistics.clusters import Codes, summed
from evals.statistics.resampling import EQUAL, Floats
from evals.statistics.significance import ALPHA, RESAMPLES

_AT_ONCE = 500  # choices of signs of which all pairs are held at once
_SURE = 1 - 1e-9  # sums of the same numbers in another order differ in the last digits


class Told(NamedTuple):
    """What the step-down test says of each column.

    p: adjusted for all pairs that could have been compared
    critical: |t| that a column has to reach where the first one fails to; inf where none could
    """

    p: Floats
    critical: float


def sign_flips(
    differences: Floats, seed: int, resamples: int = RESAMPLES, clusters: Codes | None = None
) -> Floats:
    """Return a two-sided p of each column: the share of signs by which the sum is as far from 0 as it is.

    Exact where the sums of k clusters are not 0 and 2^(k - 1) <= resamples; else one is added to the count of
    the drawn signs and to theirs. NaN where a column has no difference.

    Args:
        differences: shape (questions, columns); NaN where either of the two has no value.
        seed: the study's.
        resamples: how many signs are drawn.
        clusters: number of each question's cluster, shape (questions,); None: each is one of its own.

    >>> sign_flips(np.array([[1.0, 0.5], [2.0, -0.5], [3.0, 0.0], [4.0, 0.0]]), seed=7).tolist()
    [0.125, 1.0]
    """
    sums = _sums(differences, clusters)
    total = np.abs(sums.sum(axis=0)) * _SURE
    signs = _signs(len(sums), seed, resamples)
    exact = _is_exact(len(sums), resamples)
    p = _share((np.abs(signs @ sums) >= total).sum(axis=0), len(signs), exact)
    if not exact:
        many = (sums != 0).sum(axis=0)
        for at in np.flatnonzero([_is_exact(int(k), resamples) for k in many]):
            few = sums[sums[:, at] != 0, at]
            reached = np.abs(_signs(len(few), seed, resamples) @ few) >= total[at]
            p[at] = reached.mean()
    p[np.isnan(differences).all(axis=0)] = np.nan
    return p


def step_down(
    differences: Floats, seed: int, resamples: int = RESAMPLES, clusters: Codes | None = None
) -> Told:
    """Adjust the permutation test of each column for a leader that was found in the same data.

    Columns are cells less their leader, which leads because its values are high: among equal cells some
    leader always does. So a cell's |t| is compared with the largest |t| of any two of the cells that have not
    been told apart yet, the leader among them, under the same signs of all columns (step-down, Westfall
    and Young, Resampling-Based Multiple Testing, 1993, and Romano and Wolf, Econometrica 2005; over all pairs
    of systems as Carterette, TOIS 2012). Given the sums of squares, which signs do not change, |t| grows with
    u = |sum| / sqrt(sum of squares), and that is what is compared.

    Args: as of `sign_flips`. A missing difference counts as none.

    >>> step_down(np.array([[-1.0, 0.5], [-2.0, -0.5], [-3.0, 0.0], [-4.0, 0.0]]), seed=7).p.tolist()
    [0.125, 1.0]
    """
    sums = _sums(differences, clusters)
    groups, columns = sums.shape
    if not columns or not groups:
        return Told(np.ones(columns), np.inf)
    gram = sums.T @ sums
    seen = np.abs(sums.sum(axis=0)) * _inverse(np.diag(gram), np.diag(gram))
    order = np.argsort(-seen, kind="stable")
    sums, seen, own = sums[:, order], seen[order], np.diag(gram)[order]
    gram = gram[np.ix_(order, order)]
    between = _inverse(own[:, None] + own - 2 * gram, own[:, None] + own)
    signs = _signs(groups, seed, resamples)
    largest = np.empty((columns, len(signs)))
    for begin in range(0, len(signs), _AT_ONCE):
        drawn = sums.T @ signs[begin : begin + _AT_ONCE].T  # columns, choices
        most = np.zeros(drawn.shape[1])
        for at in reversed(range(columns)):
            others = np.abs(drawn[at + 1 :] - drawn[at]) * between[at, at + 1 :, None]
            alone = np.abs(drawn[at]) * _inverse(own[at : at + 1], own[at : at + 1])
            most = np.maximum(most, np.maximum(alone, others.max(axis=0, initial=0.0)))
            largest[at, begin : begin + _AT_ONCE] = most
    exact = _is_exact(groups, resamples)
    shares = _share((largest >= seen[:, None] * _SURE).sum(axis=1), len(signs), exact)
    adjusted = np.maximum.accumulate(shares)
    failed = np.flatnonzero(adjusted >= ALPHA)
    among = largest[failed[0] if len(failed) else -1]
    none = (among >= among.max() * _SURE).mean() >= ALPHA  # not even if all signs were the same
    bound = np.inf if none else float(np.quantile(among, 1 - ALPHA, method="higher"))
    p = np.empty(columns)
    p[order] = adjusted
    p[np.isnan(differences).all(axis=0)] = np.nan
    return Told(p, _as_t(bound, groups))


def _as_t(u: float, groups: int) -> float:
    """Return |t| of a sum of so many that is u times the root of its sum of squares."""
    left = groups - u**2
    return float(u * np.sqrt((groups - 1) / left)) if left > EQUAL * groups else np.inf


def _sums(differences: Floats, clusters: Codes | None) -> Floats:
    sums = summed(np.where(np.isnan(differences), 0.0, differences), clusters)
    return np.where(np.abs(sums) > EQUAL, sums, 0.0)


def _inverse(squares: Floats, scale: Floats) -> Floats:
    """Return 1 / sqrt(squares), and 0 where they are 0 but for rounding."""
    there = squares > 1e-12 * scale
    return np.where(there, 1 / np.sqrt(np.where(there, squares, 1.0)), 0.0)


def _is_exact(groups: int, resamples: int) -> bool:
    return 2.0 ** (groups - 1) <= resamples


def _signs(groups: int, seed: int, resamples: int) -> Floats:
    """Return all choices of signs but for mirror images, or as many drawn ones: shape (choices, groups)."""
    if _is_exact(groups, resamples):
        choices = np.arange(2 ** max(groups - 1, 0))[:, None] >> np.arange(groups)
    else:
        choices = np.random.default_rng(seed).integers(0, 2, size=(resamples, groups), dtype=np.int8)
    return (1 - 2 * (choices & 1)).astype(np.float64)


def _share(reached: Floats, choices: int, exact: bool) -> Floats:
    return reached / choices if exact else (reached + 1.0) / (choices + 1.0)
