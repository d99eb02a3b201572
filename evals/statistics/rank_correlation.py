"""How far two numbers of the same cases rise together: Kendall's tau-b, Spearman's rho, one held fixed."""

from __future__ import annotations

import math

import numpy as np

from rag_assay.evals.statistics.estimate import Estimate, Floats, Z, paired
from rag_assay.evals.statistics.shares import least_of_all

_BLOCK = 2_000_000  # pairs held at once


def kendall(one: Floats, other: Floats) -> Estimate:
    """Return Kendall's tau-b (Biometrika 1945) of two numbers of the same cases.

    The standard error is that of Brown and Benedetti (JASA 1977): each case's own pairs show how much the
    value hangs on it. Orders without any exception have none: the interval is then Wilson's of as many hits
    as there are cases.

    Args:
        one, other: shape (n,), finite.

    >>> kendall(np.array([1.0, 2, 3, 4]), np.array([1.0, 3, 2, 4])).value.__round__(3)
    0.667
    >>> kendall(np.array([1.0, 1, 1]), np.array([1.0, 3, 2])).reason
    'one of the two is the same in all cases'
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
    """Return, of each case, its concordant pairs less its discordant ones, and its pairs untied in each.

    shapes (n,) and (2, n)
    """
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

    With a third number held fixed it is the partial correlation of the ranks. The interval is Fisher's of the
    arc tangent, with the variance (1 + rho^2 / 2) / (n - 3 - k), k numbers being fixed (Bonett and Wright,
    Psychometrika 2000).

    Args:
        one, other: shape (n,), finite.
        fixed: what may explain both, shape (n,).

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
