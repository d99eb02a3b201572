"""Statistics of annotators who rate the same items: correlation, bias, drift, repeatability."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from rag_assay.evals.statistics.bootstrap import RESAMPLES, UNIT, Bounds, bootstrap
from rag_assay.evals.statistics.clusters import Codes, sum_clusters
from rag_assay.evals.statistics.estimate import CONFIDENCE, Estimate, Floats, Z, least_of_all, paired
from rag_assay.evals.statistics.resampling import EQUAL, draws
from rag_assay.evals.statistics.significance import paired_bootstrap

Weights = Literal["none", "linear", "quadratic"]


def cohens_kappa(
    one: Floats, other: Floats, weights: Weights = "none", clusters: Codes | None = None
) -> Estimate:
    """Return Cohen's kappa of two raters of the same cases (Educational and Psychological Measurement 1960).

    Weighted, a disagreement counts by the distance of the two grades, or by its square (Cohen, Psychological
    Bulletin 1968). Standard error: Fleiss, Cohen and Everitt (Psychological Bulletin 1969), with clusters of
    what each of them adds. Agreement without exception has Wilson's interval.

    one, other: grades, shape (n,), finite; the categories are all that either gives

    >>> cohens_kappa(np.array([1.0, 1, 0, 0]), np.array([1.0, 0, 0, 0])).value
    0.5
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
    """Return the agreement of each pair of grades, 1 for equal ones: shape (grades, grades)."""
    if weights == "none":
        return np.eye(len(grades))
    distance = np.abs(grades[:, None] - grades[None, :]) / (grades[-1] - grades[0])
    return 1 - distance if weights == "linear" else 1 - distance**2


FEWEST = 3  # clusters, below which they show no spread
Agree = Callable[[Floats, Floats], Estimate]


def over_clusters(
    agree: Agree, one: Floats, other: Floats, clusters: Codes, bounds: tuple[float, float] = (-1.0, 1.0)
) -> Estimate:
    """Return an agreement with its interval over clusters; where each case is one of its own, as it comes.

    The standard error is the jackknife's (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, ch.
    11), the interval Student's of the area hyperbolic tangent, so that it keeps within the bounds. Agreement
    without exception has Wilson's of as many hits as there are clusters.

    agree: what to compute; one, other: of each case, shape (n,); clusters: shape (n,), without gaps

    >>> one, other = np.arange(8.0), np.array([1.0, 0, 2, 3, 5, 4, 7, 6])
    >>> round(over_clusters(kendall, one, other, np.array([0, 0, 1, 1, 2, 2, 3, 3])).value, 3)
    0.786
    """
    found = agree(one, other)
    groups = int(clusters.max(initial=-1)) + 1
    if found.value is None or groups == len(one):
        return found
    bare = Estimate(found.value, n=found.n)
    if groups < FEWEST:
        return bare._replace(reason=f"no interval: they are of {groups} independent questions")
    least, span = bounds[0], bounds[1] - bounds[0]
    middle = 2 * (found.value - least) / span - 1
    if math.isclose(abs(middle), 1.0):
        end = 2 * least_of_all(groups) - 1
        low, high = (end, 1.0) if middle > 0 else (-1.0, -end)
        return bare._replace(low=least + (low + 1) / 2 * span, high=least + (high + 1) / 2 * span)
    without = [agree(one[clusters != at], other[clusters != at]).value for at in range(groups)]
    if any(value is None for value in without):
        return bare._replace(reason="no interval: without one question there is nothing to compare")
    others = 2 * (np.array(without, np.float64) - least) / span - 1
    if np.ptp(others) <= EQUAL:
        return bare._replace(reason="no interval: no question changes anything")
    low, high = _interval(middle, others)
    return bare._replace(low=least + (low + 1) / 2 * span, high=least + (high + 1) / 2 * span)


def _interval(middle: float, without: Floats) -> tuple[float, float]:
    from scipy.special import stdtrit  # 0.2 s, which a run without human ratings does not spend

    groups = len(without)
    error = math.sqrt((groups - 1) / groups * float(((without - without.mean()) ** 2).sum()))
    half = float(stdtrit(groups - 1, (1 + CONFIDENCE) / 2)) * error / (1 - middle**2)
    return math.tanh(math.atanh(middle) - half), math.tanh(math.atanh(middle) + half)


_BLOCK = 2_000_000  # pairs held at once


def kendall(one: Floats, other: Floats) -> Estimate:
    """Return Kendall's tau-b (Biometrika 1945) of two numbers of the same cases, shape (n,), finite.

    Standard error: Brown and Benedetti (JASA 1977). Orders without any exception have Wilson's interval.

    >>> kendall(np.array([1.0, 2, 3, 4]), np.array([1.0, 3, 2, 4])).value.__round__(3)
    0.667
    """
    paired(one, other)
    n = len(one)
    if n < 2:
        return Estimate(None, n=n, reason="there are fewer than two cases")
    if (one == one[0]).all() or (other == other[0]).all():
        return Estimate(None, n=n, reason="one of the two is the same in all cases")
    together, apart = _pairs(one, other)
    both = float(together.mean()) / n
    untied = apart.mean(axis=1) / n
    scale = math.sqrt(float(untied[0] * untied[1]))
    tau = min(1.0, max(-1.0, both / scale))
    if math.isclose(abs(tau), 1.0):
        low = 2 * least_of_all(n) - 1
        return Estimate(1.0, low, 1.0, n) if tau > 0 else Estimate(-1.0, -1.0, -low, n)
    ties = (apart / n - untied[:, None]) / untied[:, None]
    influence = 2 * ((together / n - both) / scale - tau / 2 * ties.sum(axis=0))
    half = Z * math.sqrt(float((influence**2).mean()) / n)
    return Estimate(tau, max(-1.0, tau - half), min(1.0, tau + half), n)


def _pairs(one: Floats, other: Floats) -> tuple[Floats, Floats]:
    """Return of each case concordant less discordant pairs, (n,), and pairs untied in each, (2, n)."""
    n = len(one)
    together, apart = np.empty(n), np.empty((2, n))
    at_once = max(1, _BLOCK // n)
    for begin in range(0, n, at_once):
        part = slice(begin, begin + at_once)
        first, second = (np.sign(x[part, None] - x[None, :]) for x in (one, other))
        together[part] = (first * second).sum(axis=1)
        apart[:, part] = np.abs(first).sum(axis=1), np.abs(second).sum(axis=1)
    return together, apart


def spearman(one: Floats, other: Floats, fixed: Floats | None = None) -> Estimate:
    """Return Spearman's rho (American Journal of Psychology 1904): the correlation of mean ranks.

    With a third number held fixed it is the partial correlation of the ranks. The interval is Fisher's, with
    the variance (1 + rho^2 / 2) / (n - 3 - k), k numbers being fixed (Bonett and Wright, Psychometrika 2000).

    one, other, fixed: shape (n,), finite

    >>> spearman(np.array([1.0, 2, 3, 4, 5]), np.array([1.0, 3, 2, 4, 5])).value.__round__(3)
    0.9
    """
    paired(one, other)
    n, n_fixed = len(one), int(fixed is not None)
    if n < 4 + n_fixed:
        return Estimate(None, n=n, reason=f"there are fewer than {4 + n_fixed} cases")
    rho = _rho(one, other)
    if fixed is not None and rho is not None:
        paired(one, fixed)
        first, second = _rho(one, fixed), _rho(other, fixed)
        if first is not None and second is not None:  # what does not vary explains nothing
            left = (1 - first**2) * (1 - second**2)
            if left <= 1e-12:
                return Estimate(None, n=n, reason="what is held fixed explains one of the two wholly")
            rho = (rho - first * second) / math.sqrt(left)
    if rho is None:
        return Estimate(None, n=n, reason="one of the two is the same in all cases")
    rho = min(1.0, max(-1.0, rho))
    if math.isclose(abs(rho), 1.0):
        low = 2 * least_of_all(n) - 1
        return Estimate(1.0, low, 1.0, n) if rho > 0 else Estimate(-1.0, -1.0, -low, n)
    half = Z * math.sqrt((1 + rho**2 / 2) / (n - 3 - n_fixed))
    return Estimate(rho, math.tanh(math.atanh(rho) - half), math.tanh(math.atanh(rho) + half), n)


def _rho(one: Floats, other: Floats) -> float | None:
    from scipy.stats import rankdata

    first, second = (ranks - ranks.mean() for ranks in (rankdata(one), rankdata(other)))
    scale = math.sqrt(float(first @ first) * float(second @ second))
    return float(first @ second) / scale if scale else None


def to_the_others(items: Codes, values: Floats) -> Floats:
    """Return each score less the mean of the other scores of its item; NaN without another annotator.

    items: number of the item of each score, from 0; values: one a person and item; both of shape (scores,)

    >>> to_the_others(np.array([0, 0, 0, 1]), np.array([5.0, 3.0, 0.0, 5.0])).tolist()
    [3.5, 0.5, -4.0, nan]
    """
    often, total = np.bincount(items), np.bincount(items, weights=values)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(values - (total[items] - values) / (often[items] - 1))


def mean_of(
    values: Floats, seed: int, clusters: Codes | None = None, bounds: Bounds = (None, None)
) -> Estimate:
    """Return the mean of some numbers with its interval (`evals.statistics.bootstrap`)."""
    found = bootstrap(values, seed, clusters, bounds) if len(values) else None
    if found is None:
        return Estimate(None, reason="there is none")
    reason = "too few for an interval" if found.low is None else None
    return Estimate(found.mean, found.low, found.high, len(values), reason)


def bias_of(differences: Floats, seed: int, clusters: Codes | None = None) -> Estimate:
    """Return the mean of differences (`to_the_others`) with the paired bootstrap's interval."""
    if not len(differences):
        return Estimate(None, reason="no other annotator has scored these items")
    binary = bool(np.isin(differences, (-1.0, 0.0, 1.0)).all())
    found = paired_bootstrap(differences[:, None], seed, RESAMPLES, clusters, binary=binary)
    low, high = float(found.low[0]), float(found.high[0])
    if not np.isfinite([low, high]).all():
        return Estimate(float(found.mean[0]), n=len(differences), reason="no interval: too few differ")
    return Estimate(float(found.mean[0]), low, high, len(differences))


def equal_pairs(items: Codes, values: Floats, seed: int, clusters: Codes | None = None) -> Estimate:
    """Return the share of equal pairs of scores, each item counting once."""
    _, places = np.unique(values, return_inverse=True)
    many = int(items.max(initial=-1)) + 1
    counts = np.zeros((many, int(places.max(initial=-1)) + 1))
    np.add.at(counts, (items, places), 1)
    n = counts.sum(axis=1)
    shared = n > 1
    alike = (counts[shared] * (counts[shared] - 1)).sum(axis=1) / (n[shared] * (n[shared] - 1))
    return mean_of(alike, seed, None if clusters is None else clusters[shared], UNIT)


def change(at: Floats, values: Floats, clusters: Codes | None = None) -> Estimate:
    """Return by how much values change for each 1 of ``at``, both of shape (values,): the slope by least
    squares.

    The interval is Student's of clusters' residuals (Liang and Zeger, Biometrika 1986; Cameron, Gelbach and
    Miller, Review of Economics and Statistics 2008). Where ``at`` is 0 and 1, it is the difference of two
    means.

    >>> change(np.array([0.0, 0, 0, 1, 1, 1]), np.array([1.0, 2, 3, 3, 4, 5])).value
    2.0
    """
    from scipy.special import stdtrit

    paired(at, values)
    n = len(values)
    places = at - at.mean() if n else at
    square = float((places**2).sum())
    if n < FEWEST or not square:
        return Estimate(None, n=n, reason="too few scores, or all at one place")
    slope = float(places @ values) / square
    residuals = values - values.mean() - slope * places
    sums = sum_clusters((places * residuals)[:, None], clusters)[:, 0]
    groups = len(sums)
    if groups < FEWEST:
        return Estimate(slope, n=n, reason="no interval: these scores stand or fall together")
    spread = float((sums**2).sum()) * groups / (groups - 1) * (n - 1) / max(n - 2, 1)
    half = float(stdtrit(groups - 1, (1 + CONFIDENCE) / 2)) * spread**0.5 / square
    return Estimate(slope, slope - half, slope + half, n)


Level = Literal["nominal", "ordinal", "interval"]
"""How far two values are apart: they differ or not, by the ranks between them, or by their difference."""
RELIABLE, TENTATIVE = 0.8, 0.667
"""From the first on conclusions can be drawn, from the second on tentative ones (Krippendorff, Human
Communication Research 30(3), 2004, p. 429)."""
FEWEST_ITEMS = 5  # with fewer items, or clusters of them, a resample tells nothing of other items
_EDGE = 1e-4  # shares of resamples that are nearer to 0 or 1 say no more


def krippendorffs_alpha(
    items: Codes, values: Floats, level: Level, seed: int, clusters: Codes | None = None
) -> Estimate:
    """Return Krippendorff's alpha of scores; `n` counts the items that two people or more have scored.

    1 - observed disagreement / disagreement by chance, over all pairs of values of an item (Krippendorff,
    Computing Krippendorff's Alpha-Reliability, 2011).

    The interval is the bootstrap's over the items (or clusters of them), with disagreement by chance computed
    again in each resample (Zapf and others, BMC Medical Research Methodology 16:93, 2016), BCa (Efron, JASA
    1987), and as much wider as Student's interval is than the normal one (Hesterberg, The American
    Statistician 2015): percentiles alone are too narrow with few items (`make bench-agreement`). Without any
    disagreement, for the lower bound people differ in as many items as Wilson's interval allows, as far as
        can be.

    items: number of the item of each score, from 0; values: one a person and item; both of shape (scores,)

    >>> ben, gerry = [1, 1, 2, 2, 4, 3, 3, 3, 5, 4, 4, 1], [2, 1, 2, 2, 2, 3, 3, 3, 5, 4, 4, 4]
    >>> scores = np.array(ben + gerry, float)
    >>> found = krippendorffs_alpha(np.tile(np.arange(12), 2), scores, "nominal", seed=7)
    >>> round(found.value, 3), found.n
    (0.692, 12)
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
    pairs = sum_clusters(_coincidences(counts[shared]), renumber(clusters, shared))
    value = float(_alphas(pairs.sum(axis=0)[None], grades, level)[0])
    if len(pairs) < FEWEST_ITEMS:
        return Estimate(value, n=n, reason=f"no interval: fewer than {FEWEST_ITEMS} independent items")
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


def renumber(clusters: Codes | None, kept: npt.NDArray[np.bool_] | Codes) -> Codes | None:
    """Return the clusters of those that are kept (flags or places), numbered without gaps."""
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


def roc_auc(labels: npt.NDArray[np.bool_], scores: Floats) -> Estimate:
    """Return the share of (positive, negative) pairs of cases in which the positive one scores higher; ties:
    half.

    Its variance is that of DeLong, DeLong and Clarke-Pearson (Biometrics 1988), by ranks (Sun and Xu, IEEE
    Signal Processing Letters 2014); the interval is computed of the logit (Qin and Hotilovac, Statistical
    Methods in Medical Research 2008). A curve without a mistake has Wilson's, of as many hits as the smaller
    class has cases.

    labels: whether a case is positive, shape (n,); scores: shape (n,), finite

    >>> roc_auc(np.array([True, True, False, False]), np.array([0.9, 0.5, 0.5, 0.1])).value
    0.875
    """
    paired(labels.astype(np.float64), scores)
    n, n_positive = len(labels), int(labels.sum())
    if not n:
        return Estimate(None, reason="there is no case")
    if n_positive in {0, n}:
        return Estimate(None, n=n, reason="all cases have the same label")
    area, error = delong(scores[labels], scores[~labels])
    if area in {0.0, 1.0}:
        low = least_of_all(min(n_positive, n - n_positive))
        return Estimate(area, low, 1.0, n) if area else Estimate(area, 0.0, 1 - low, n)
    if (scores == scores[0]).all():
        return Estimate(area, n=n, reason="all scores are the same")
    if error is None:
        return Estimate(area, n=n, reason="one class has a single case, which has no variance")
    middle, half = math.log(area / (1 - area)), Z * error / (area * (1 - area))
    return Estimate(area, _expit(middle - half), _expit(middle + half), n)


def delong(positive: Floats, negative: Floats) -> tuple[float, float | None]:
    """Return the area and its standard error; None where a class has a single case.

    positive, negative: scores of the cases of either class, shapes (m,) and (n,), neither empty
    """
    from scipy.stats import rankdata

    m, n = len(positive), len(negative)
    ranks = rankdata(np.concatenate([positive, negative]))
    above = (ranks[:m] - rankdata(positive)) / n  # share of the negatives below each positive
    below = 1 - (ranks[m:] - rankdata(negative)) / m
    if m < 2 or n < 2:
        return float(above.mean()), None
    variance = float(above.var(ddof=1)) / m + float(below.var(ddof=1)) / n
    return float(above.mean()), math.sqrt(variance)


class Curve(NamedTuple):
    """A ROC curve: at each threshold the shares of either class that score at least so high.

    at: thresholds, falling; the first is above every score
    good, bad: shares of the positive and of the negative cases, from 0 to 1
    """

    at: Floats
    good: Floats
    bad: Floats


def roc_curve(labels: npt.NDArray[np.bool_], scores: Floats) -> Curve:
    """Return the curve over all thresholds that differ; both classes have a case. Its area is that of
    `roc_auc`.

    >>> curve = roc_curve(np.array([True, True, False, False]), np.array([0.9, 0.5, 0.5, 0.1]))
    >>> curve.good.tolist(), curve.bad.tolist()
    ([0.0, 0.5, 1.0, 1.0], [0.0, 0.0, 0.5, 1.0])
    """
    order = np.argsort(-scores, kind="stable")
    falling = scores[order]
    last = np.flatnonzero(np.append(falling[1:] != falling[:-1], True))
    good = np.cumsum(labels[order])[last]
    bad = np.cumsum(~labels[order])[last]
    return Curve(
        np.append(np.inf, falling[last]), np.append(0.0, good / good[-1]), np.append(0.0, bad / bad[-1])
    )


def _expit(value: float) -> float:
    return 1 / (1 + math.exp(-value)) if value >= 0 else math.exp(value) / (1 + math.exp(value))
