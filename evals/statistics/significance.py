"""Paired tests between cells: bootstrap, permutation, Holm's correction; what could have been found.

Questions about the same document share its difficulty: then clusters are what is drawn
(`evals.statistics.clusters`). The permutation tests try all choices of signs of the differences with few
clusters, and else draw some (Fisher 1935; for retrieval: Smucker, Allan and Carterette, CIKM 2007).
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from rag_assay.evals.statistics import resampling
from rag_assay.evals.statistics.clusters import Codes, sum_clusters
from rag_assay.evals.statistics.resampling import BLOCK, EQUAL, Floats

ALPHA = 0.05  # two cells are significantly different where the adjusted p is below it
RESAMPLES = 10_000
FEWEST_CLUSTERS = 6  # with fewer no sign-flip test can be significant: 2^(1 - 5) > 0.05


class Differences(NamedTuple):
    """Paired bootstrap of each column, NaN where undefined; low, high: 95 % interval of this mean alone."""

    mean: resampling.Floats
    low: resampling.Floats
    high: resampling.Floats
    p: resampling.Floats
    error: resampling.Floats
    groups: resampling.Floats


def paired_bootstrap(
    differences: resampling.Floats,
    seed: int,
    resamples: int = RESAMPLES,
    clusters: Codes | None = None,
    *,
    binary: bool = False,
) -> Differences:
    """Test whether the mean of each column is 0, by its studentised bootstrap over rows or clusters of them.

    With d the differences, m their mean, s its standard error (`resampling.student`) and t = m / s, the
    p-value is the share of resamples of d - m whose |t| is at least that of d (Efron and Tibshirani, An
    Introduction to the Bootstrap, 1993, ch. 16; Sakai, SIGIR 2006), with one added to either count; where
    none is, Student's distribution tells how far below that share p is. The interval is m ± q * s, q the
    95th percentile of those |t|.

    The signs of k clusters' sums can be chosen in 2^k ways: a smaller p is raised to 2^(1 - k).

    differences: shape (questions, columns); NaN where either of the two has no value
    binary: the values that differ are 0 or 1; where the bootstrap has no interval then, Agresti and Min's
        (Statistics in Medicine 2005) stands in

    >>> paired_bootstrap(np.array([[0.2, 0.0], [0.4, 0.0], [0.3, 0.0]]), seed=7).p.tolist()
    [0.25, 1.0]
    """
    from scipy.special import stdtr  # 0.2 s, which a run with nothing to compare has not; scipy.stats: 1 s

    sums = resampling.sums_of(differences, clusters)
    groups = sums.groups
    error, t = resampling.student(sums.mean, (sums.residual**2).sum(axis=0), sums.total, groups)
    reached, bound = np.empty_like(error), np.empty_like(error)
    wide = max(1, resampling.BLOCK // resamples)
    for at in range(0, len(error), wide):
        part = slice(at, at + wide)
        ts = resampling.resample_clusters(sums.part(part), seed, resamples)
        reached[part] = (ts >= np.abs(t[part]) * (1 - 1e-9)).sum(axis=0)
        bound[part] = np.quantile(ts, 1 - ALPHA, axis=0, method="higher")
    signs = 2.0 ** (
        1 - (np.abs(sum_clusters(np.nan_to_num(differences), clusters)) > resampling.EQUAL).sum(axis=0)
    )
    tail = np.where(reached > 0, 1.0, 2 * stdtr(np.maximum(groups - 1, 1), -np.abs(t)))
    p = np.minimum(1.0, np.maximum(np.minimum((reached + 1) / (resamples + 1), tail), signs))
    p[sums.total == 0] = np.nan
    with np.errstate(invalid="ignore"):
        half = np.where(error > 0, bound * error, 0.0)
    half[(groups < 2) | ~np.isfinite(half)] = np.nan
    low, high = sums.mean - half, sums.mean + half
    if binary:
        few = (groups > 1) & (np.isnan(half) | (error == 0))
        other = _agresti_min(sums)
        low, high = np.where(few, other[0], low), np.where(few, other[1], high)
    error[groups < 2] = np.nan
    return Differences(sums.mean, low, high, p, error, np.asarray(sums.groups, np.float64))


def _agresti_min(sums: resampling.Sums) -> tuple[resampling.Floats, resampling.Floats]:
    """Return intervals of mean differences of -1, 0 and 1: Wald's, after half a pair is added to each
    square.
    """
    from scipy.special import stdtrit

    n, groups = sums.total + 2, np.maximum(sums.groups, 2)
    mean = sums.mean * sums.total / n
    residual = sums.residual + (sums.mean - mean) * sums.n
    squares = (residual**2).sum(axis=0) * groups / (groups - 1)
    added = mean**2 + ((1 - mean) ** 2 + (1 + mean) ** 2) / 2
    half = stdtrit(groups - 1, 1 - ALPHA / 2) * np.sqrt(squares + added) / n
    return np.maximum(mean - half, -1.0), np.minimum(mean + half, 1.0)


def holm(p: resampling.Floats) -> resampling.Floats:
    """Adjust p-values so that below `ALPHA` any of them is false in at most 5 % of families (Holm 1979); NaN
    stays.

    >>> holm(np.array([0.01, np.nan, 0.04, 0.03])).round(3).tolist()
    [0.03, nan, 0.06, 0.06]
    """
    adjusted = np.full(p.shape, np.nan)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    factors = len(order) - np.arange(len(order))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(factors * p[order]))
    return adjusted


Bools: TypeAlias = "npt.NDArray[np.bool_]"
Standing = Literal["tied", "within", "worse"]  # a cell against its leader; within: the margin
_AT_ONCE = 500  # choices of signs of which the sums of all cells are held at once
_SURE = 1 - 1e-9  # sums of the same numbers in another order differ in the last digits


class StepDownResult(NamedTuple):
    """Result of the step-down test.

    p: of each column, adjusted for all cells and for a leader that was found in the same data
    critical: the mean difference that the first cell that is not significant has to reach; inf where none can
    """

    p: Floats
    critical: float


def sign_flips(
    differences: Floats, seed: int, resamples: int = RESAMPLES, clusters: Codes | None = None
) -> Floats:
    """Return a two-sided p of each column: the share of signs by which the sum is as far from 0 as it is.

    Exact where the sums of k clusters are not 0 and 2^(k - 1) <= resamples; else one is added to either
    count. NaN where a column has no difference.

    differences: shape (questions, columns); NaN where either of the two has no value

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
) -> StepDownResult:
    """Adjust the permutation test of each column for a leader that was found in the same data.

    Columns are cells less their leader, which leads because its values are high. So the sum of a cell's
    differences is compared with the range of the sums of all cells that are not significant yet, the leader
    among them, under the same signs of all columns (step-down: Westfall and Young, Resampling-Based Multiple
    Testing, 1993; Romano and Wolf, Econometrica 2005). The range is not studentised: with few clusters
    studentised sums reject true hypotheses too often or find nothing (`make bench-verdict`).

    >>> step_down(np.array([[-1.0, 0.5], [-2.0, -0.5], [-3.0, 0.0], [-4.0, 0.0]]), seed=7).p.tolist()
    [0.125, 1.0]
    """
    sums = _sums(differences, clusters)
    groups, columns = sums.shape
    if not columns or not groups:
        return StepDownResult(np.ones(columns), np.inf)
    seen = np.abs(sums.sum(axis=0))
    order = np.argsort(seen, kind="stable")  # the leader's own difference, 0, comes before the first
    sums, seen = sums[:, order], seen[order]
    signs = _signs(groups, seed, resamples)
    ranges = np.empty((len(signs), columns), np.float32 if columns * len(signs) > BLOCK else np.float64)
    for begin in range(0, len(signs), _AT_ONCE):
        drawn = signs[begin : begin + _AT_ONCE] @ sums
        high, low = np.maximum.accumulate(drawn, axis=1), np.minimum.accumulate(drawn, axis=1)
        ranges[begin : begin + _AT_ONCE] = np.maximum(high, 0.0) - np.minimum(low, 0.0)
    shares = _share((ranges >= seen * _SURE).sum(axis=0), len(signs), _is_exact(groups, resamples))
    adjusted = np.maximum.accumulate(shares[::-1])[::-1]
    failed = np.flatnonzero(adjusted >= ALPHA)
    among = ranges[:, failed[-1] if len(failed) else 0]
    none = (among >= among.max() * _SURE).mean() >= ALPHA  # not even if all signs were the same
    critical = np.inf if none else float(np.quantile(among, 1 - ALPHA, method="higher")) / len(differences)
    p = np.empty(columns)
    p[order] = adjusted
    p[np.isnan(differences).all(axis=0)] = np.nan
    return StepDownResult(p, critical)


def _sums(differences: Floats, clusters: Codes | None) -> Floats:
    sums = sum_clusters(np.where(np.isnan(differences), 0.0, differences), clusters)
    return np.where(np.abs(sums) > EQUAL, sums, 0.0)


def _is_exact(groups: int, resamples: int) -> bool:
    return groups <= resamples.bit_length() and 2 ** max(groups - 1, 0) <= resamples


def _signs(groups: int, seed: int, resamples: int) -> Floats:
    """Return all choices of signs but for mirror images, or as many drawn ones: shape (choices, groups)."""
    if _is_exact(groups, resamples):
        choices = np.arange(2 ** max(groups - 1, 0))[:, None] >> np.arange(groups)
    else:
        choices = np.random.default_rng(seed).integers(0, 2, size=(resamples, groups), dtype=np.int8)
    return (1 - 2 * (choices & 1)).astype(np.float64)


def _share(reached: Floats, choices: int, exact: bool) -> Floats:
    return reached / choices if exact else (reached + 1.0) / (choices + 1.0)


POWER = 0.8
MOST_QUESTIONS = 1_000_000  # larger plans are not realistic


def detectable(error: Floats, critical: float) -> Floats:
    """Return the smallest true difference that a test would find four times out of five.

    critical + z * error, z the normal quantile of the power (Cohen, Statistical Power Analysis, 1988, ch.
    2; for retrieval: Sakai, Information Retrieval Journal 2016). Infinite where none could have been found.
    """
    from scipy.special import ndtri

    return np.asarray(critical + float(ndtri(POWER)) * error)


def questions_needed(
    difference: Floats, error: Floats, n: Floats, critical: float, comparisons: int
) -> Floats:
    """Return how many questions would find each difference four times out of five, if it is what it seems.

    n * (detectable / difference)^2, as what is detectable falls with the root of the number of questions. NaN
    where the two are equal so far, or more than a million would be needed.

    critical: the mean difference that had to be reached; if none can be, that of Šidák's normal quantile

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


def within_margin(found: Differences, margin: float) -> Bools:
    """Return whether the interval of each difference is inside of ±margin, in the family of all columns.

    The one-sided Student's test that the difference is not as large as the margin (Schuirmann, J.
    Pharmacokinetics and Biopharmaceutics 1987) must hold as well, after Holm's correction. False with fewer
    than `FEWEST_CLUSTERS` clusters and without a margin (NaN).
    """
    from scipy.special import stdtr

    room = margin - np.abs(found.mean)
    with np.errstate(divide="ignore", invalid="ignore"):
        p = stdtr(np.maximum(found.groups - 1, 1), -room / found.error)
    p = np.where(found.error == 0, np.where(room > EQUAL, 0.0, 1.0), p)
    inside = (found.low > EQUAL - margin) & (found.high < margin - EQUAL)
    return np.asarray(inside & (holm(p) < ALPHA) & (found.groups >= FEWEST_CLUSTERS))


class Contrasts(NamedTuple):
    """Comparison of each cell with the leader, as arrays of shape (cells,).

    p: of the step-down permutation test; a cell is significantly different below `ALPHA`
    detectable: the smallest true difference that would be found four times out of five
    needed: how many questions would find this one, NaN where it is found or out of reach
    within: whether the difference is shown to be smaller than the margin (`within_margin`)
    """

    differences: Differences
    p: Floats
    detectable: Floats
    needed: Floats
    within: Bools

    @property
    def apart(self) -> Bools:
        """Significantly different, and not within the margin."""
        return np.asarray((self.p < ALPHA) & ~self.within)


def contrasts(
    differences: Floats,
    seed: int,
    clusters: Codes | None = None,
    *,
    binary: bool = False,
    resamples: int = RESAMPLES,
    margin: float = math.nan,
) -> Contrasts:
    """Compare cells with their leader by the paired permutation test over clusters of questions.

    differences: values less the leader's, shape (questions, cells); NaN where either has none
    binary: the values are all 0 or 1; margin: a difference that does not matter; NaN: none is stated

    >>> found = contrasts(np.array([[-0.5, 0.0]] * 20), seed=7)
    >>> (found.p < ALPHA).tolist(), found.differences.mean.tolist()
    ([True, False], [-0.5, 0.0])
    """
    found = paired_bootstrap(differences, seed, resamples, clusters, binary=binary)
    flipped = step_down(differences, seed, resamples, clusters)
    within = within_margin(found, margin)
    n = (~np.isnan(differences)).sum(axis=0).astype(np.float64)
    needed = questions_needed(found.mean, found.error, n, flipped.critical, differences.shape[1])
    return Contrasts(
        found,
        flipped.p,
        detectable(found.error, flipped.critical),
        np.where((flipped.p < ALPHA) | within, np.nan, needed),
        within,
    )
