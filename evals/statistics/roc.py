"""ROC curves and the area under them: how well scores put the cases of one class above the others."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rag_assay.evals.statistics.estimate import Estimate, Floats, Z, least_of_all, paired


def roc_auc(labels: npt.NDArray[np.bool_], scores: Floats) -> Estimate:
    """Return the share of (positive, negative) pairs of cases in which the positive one scores higher.

    Ties count half: it is the Mann-Whitney statistic. Its variance is that of DeLong, DeLong and
    Clarke-Pearson (Biometrics 1988), computed by ranks (Sun and Xu, IEEE Signal Processing Letters 2014); the
    interval is computed of the logit, and so stays between 0 and 1 (Qin and Hotilovac, Statistical Methods in
    Medical Research 2008). A curve without a mistake has no variance: its interval is Wilson's of as many
    hits as the smaller class has cases.

    Args:
        labels: whether a case is positive, shape (n,).
        scores: shape (n,), finite.

    >>> roc_auc(np.array([True, True, False, False]), np.array([0.9, 0.5, 0.5, 0.1])).value
    0.875
    >>> roc_auc(np.array([True, True]), np.array([0.9, 0.5])).reason
    'all cases have the same label'
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

    Args:
        positive, negative: scores of the cases of either class, shapes (m,) and (n,), neither empty.
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
    """Return the curve over all thresholds that differ; both classes have a case.

    Its area by trapezoids is that of `roc_auc`: equal scores are passed together.

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
        np.append(np.inf, falling[last]),
        np.append(0.0, good / good[-1]),
        np.append(0.0, bad / bad[-1]),
    )


def _expit(value: float) -> float:
    return 1 / (1 + math.exp(-value)) if value >= 0 else math.exp(value) / (1 + math.exp(value))
