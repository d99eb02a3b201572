"""Means of human ratings from few ratings and many judgements: prediction-powered inference.

With y the human ratings, f the scores of a judge, L the items that people have scored, and w = 1 / p, p being
the probability with which an item was drawn for scoring, the estimate is

    weighted mean of y over L + power * (mean of f over all items - weighted mean of f over L)

(Angelopoulos, Bates, Fannjiang, Jordan and Zrnic, Science 2023; weighted: Zrnic and Candès, Active
Statistical Inference, ICML 2024). Whatever the judge is worth, it is about unbiased. Weighted means are
Hájek's (1971): p need be known but for a factor.

`power` minimises the estimated variance (power tuning: Angelopoulos, Duchi and Zrnic, PPI++, 2023, section
6). It lies between 0, which is people alone, and the ratio of the two standard deviations; in standard
deviations of both between 0 and 1. So it brings judgements to the scale of people, too.

What is drawn are clusters. Variances are those of the estimate's linear part, summed by cluster (Binder,
International Statistical Review 1983), with as many degrees of freedom as clusters of equal weight would tell
as much (Kish 1965), less one for the mean and one for the power. Of scores between bounds the interval is
Wilson's, with as many items as would have this error (Korn and Graubard, Survey Methodology 1998) and
Student's quantile (`make bench-people`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rag_assay.evals.statistics.bootstrap import CONFIDENCE
from rag_assay.evals.statistics.clusters import Codes
from rag_assay.evals.statistics.estimate import Z
from rag_assay.evals.statistics.resampling import EQUAL, Floats

FEWEST = 3  # clusters with scored items, of equal weight, below which human ratings are used alone


class Items(NamedTuple):
    """Items of a cell, or of several: all of them, scored or not; arrays of shape (items,).

    scores: human ratings; NaN: not rated
    judged: by a judge; NaN: it gives no value, and the mean of its values stands in
    drawn: probability with which each was drawn for scoring, but for a factor; None: the same for all
    clusters: number of each item's cluster; None: each is one of its own
    """

    scores: Floats
    judged: Floats
    bounds: tuple[float, float]
    drawn: Floats | None = None
    clusters: Codes | None = None
    among: int = 0

    def summed(self, values: Floats) -> Floats:
        if self.clusters is None:
            return values
        return np.bincount(self.clusters, values, self.among).astype(np.float64)


@dataclass(frozen=True)
class Mean:
    """An estimate of the mean of human ratings.

    value: None without human ratings
    low, high: of the 95 % interval, error: standard error; None where one cluster alone holds scored items
    power: points of people that a point of the judge counts; 0: people alone
    share: the same in standard deviations of both, 0 to 1
    groups: clusters with scored items, as many as of equal weight would tell as much
    part: of each cluster in the estimate: their squares, summed, are the variance; shape (clusters,)
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    error: float | None = None
    power: float = 0.0
    share: float = 0.0
    labels: int = 0
    groups: float = 0.0
    items: int = 0
    part: Floats | None = None


@dataclass(frozen=True)
class Powered:
    """Annotators alone, and with the judge."""

    people: Mean
    combined: Mean

    @property
    def saved(self) -> float:
        """Further labels that annotators alone would need for an error as small."""
        one, other = self.people.error, self.combined.error
        if not one or not other:
            return 0.0
        most = max(self.people.items - self.people.labels, 0)
        return min(self.people.labels * ((one / other) ** 2 - 1), float(most))

    @property
    def width(self) -> float | None:
        one, other = _width(self.people), _width(self.combined)
        return None if one is None or other is None or not one else other / one

    def labels_for(self, half: float) -> int | None:
        """Return the labels for an interval of value ± half; None: all items would not do."""
        people, mean = self.people, self.combined
        if people.error is None or mean.error is None:
            return None
        of_items = mean.share**2 * people.labels * _spread(people) ** 2 / max(mean.items, 1)
        of_labels = max(_spread(mean) ** 2 - of_items, 0.0) * people.labels
        left = (half / Z) ** 2 - of_items
        if left <= 0 or of_labels / left > mean.items:
            return None
        return math.ceil(of_labels / left)


def _spread(mean: Mean) -> float:
    """Return the standard error that the interval stands for: a few equal scores have an error of 0."""
    return max(mean.error or 0.0, (_width(mean) or 0.0) / (2 * Z))


def _width(mean: Mean) -> float | None:
    return None if mean.low is None or mean.high is None else mean.high - mean.low


def estimate_mean(items: Items, power: float | None = None) -> Powered:
    """Return the mean of human ratings, by themselves and with a judge.

    >>> scores = np.array([5.0, 0, 5, 3, 0, 5] + [np.nan] * 6)
    >>> judged = np.array([0.9, 0.1, 0.8, 0.7, 0.2, 1.0] + [0.1] * 6)  # the others are bad ones
    >>> found = estimate_mean(Items(scores, judged, (0, 5)))
    >>> found.people.value, round(found.combined.value, 2)
    (3.0, 1.46)
    """
    parts = _parts(items)
    if parts is None:
        unrated = Mean(None, items=len(items.scores))
        return Powered(unrated, unrated)
    people = _mean(parts, 0.0, 1, items)
    if power is None:
        power = _tuned(parts)
        if not power:
            return Powered(people, people)
        combined = _mean(parts, power, 2, items)
        one, other = _width(people), _width(combined)
        # What tuning costs may be more than it brings.
        return Powered(people, combined if one and other and other < one else people)
    return Powered(people, _mean(parts, power, 2, items))


def difference(one: Mean, other: Mean, bounds: tuple[float, float], comparisons: int = 1) -> Mean:
    """Return one estimate less another of the same clusters, paired by cluster.

    comparisons: intervals that hold together in 95 % of studies (Bonferroni)
    """
    if one.value is None or other.value is None:
        return Mean(None)
    assert one.part is not None  # noqa: S101 -- what has a value has parts
    assert other.part is not None  # noqa: S101
    part = one.part - other.part
    groups = min(one.groups, other.groups)
    spent = 2 if one.power or other.power else 1
    value, span = one.value - other.value, bounds[1] - bounds[0]
    least = min(one.labels, other.labels)
    found = Mean(value, labels=least, groups=groups, items=min(one.items, other.items), part=part)
    return _with_interval(found, spent, (-span, span), comparisons)


class _Parts(NamedTuple):
    """What the estimate is made of.

    people, judge: of each cluster, what it adds to the weighted mean of scores, and to the mean of judgements
        less their weighted mean over scored items; shape (clusters,)
    y: weighted mean of the scores; apart: the means of judgements, less the weighted one
    groups: as in `Mean`
    """

    people: Floats
    judge: Floats
    y: float
    apart: float
    most: float
    groups: float


def _parts(items: Items) -> _Parts | None:
    there = ~np.isnan(items.scores)
    if not there.any():
        return None
    known = ~np.isnan(items.judged)
    judged = np.where(known, items.judged, items.judged[known].mean() if known.any() else 0.0)
    weights = np.where(there, 1.0, 0.0)
    if items.drawn is not None and not there.all():  # all are scored: how they were drawn is no matter
        weights[there] = 1 / items.drawn[there]
    weights /= weights.sum()
    scores = np.where(there, items.scores, 0.0)
    y, of_scored, of_all = weights @ scores, weights @ judged, judged.mean()
    off = np.where(there, judged - of_scored, 0.0)
    deviation, of_judge = (math.sqrt(weights @ one**2) for one in (np.where(there, scores - y, 0.0), off))
    flat = of_judge <= EQUAL * max(1.0, abs(float(judged.max(initial=0.0, where=known))))
    people = weights * (scores - y)
    judge = (judged - of_all) / len(judged) - weights * off
    held = items.summed(weights)
    return _Parts(
        items.summed(people),
        items.summed(judge),
        float(y),
        0.0 if flat else float(of_all - of_scored),
        0.0 if flat else deviation / of_judge,
        float(1 / (held @ held)),
    )


def _tuned(parts: _Parts) -> float:
    """Return the power that minimises sum (people + power * judge)^2."""
    squares = float(parts.judge @ parts.judge)
    if parts.groups < FEWEST or not parts.most or squares <= EQUAL**2:
        return 0.0
    return min(max(-float(parts.people @ parts.judge) / squares, 0.0), parts.most)


def _mean(parts: _Parts, power: float, spent: int, items: Items) -> Mean:
    value = parts.y + power * parts.apart
    found = Mean(
        min(max(value, items.bounds[0]), items.bounds[1]),
        power=power,
        share=min(power / parts.most, 1.0) if parts.most else 0.0,
        labels=int((~np.isnan(items.scores)).sum()),
        groups=parts.groups,
        items=len(items.scores),
        part=parts.people + power * parts.judge,
    )
    return _with_interval(found, spent, items.bounds)


def _with_interval(mean: Mean, spent: int, bounds: tuple[float, float], comparisons: int = 1) -> Mean:
    from scipy.special import stdtrit  # 0.2 s, which a run that estimates nothing has not

    free = mean.groups - spent
    if free < 1 or mean.value is None or mean.part is None:
        return mean
    error = math.sqrt(float(mean.part @ mean.part) * mean.groups / free)
    quantile = -float(stdtrit(free, (1 - CONFIDENCE) / 2 / comparisons))
    low, high = _wilson(mean.value, error, mean.groups, quantile, bounds)
    return Mean(**{**vars(mean), "low": low, "high": high, "error": error})


def _wilson(
    value: float, error: float, groups: float, quantile: float, bounds: tuple[float, float]
) -> tuple[float, float]:
    """Return Wilson's interval of a mean between bounds, with as many cases as would have this error.

    Without any error, as where all scores are equal, each cluster is one case.
    """
    least, span = bounds[0], bounds[1] - bounds[0]
    share = min(max((value - least) / span, 0.0), 1.0)
    spread = share * (1 - share)
    relative = error / span
    n = 1 + spread / relative**2 if relative > EQUAL and spread > EQUAL else groups
    z = quantile**2 / n
    centre, half = (share + z / 2) / (1 + z), math.sqrt(z * spread + z**2 / 4) / (1 + z)
    return least + span * max(centre - half, 0.0), least + span * min(centre + half, 1.0)
