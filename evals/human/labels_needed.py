"""How many labels the wanted interval needs."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np

LEVEL = 0.95
AT_EACH_END = 2  # values that are added to those so far at either bound


def labels_needed(half_width: float, population: int, variance: float) -> int:
    """Return how many items of a population have to be scored for their mean to be known so well.

    The smallest n for which t S sqrt((1 - n / N) / n) is at most the half width, with the variance S² (of
    divisor N - 1), the finite population correction, and the 97.5 % quantile t of Student's distribution with
    n - 1 degrees of freedom (Cochran, Sampling Techniques, 3rd edition, 1977, 2.8 and 4.6).

    >>> labels_needed(0.1, 1_000_000, 0.25), labels_needed(0.1, 100, 0.25), labels_needed(0.1, 100, 0.0)
    (99, 51, 2)
    """
    from scipy.special import stdtrit

    least, most = min(2, population), population
    while least < most:
        n = (least + most) // 2
        wide = stdtrit(n - 1, (1 + LEVEL) / 2) * sqrt(variance * (1 - n / population) / n)
        least, most = (least, n) if wide <= half_width else (n + 1, most)
    return least


def likely_variance(values: Sequence[float], bounds: tuple[float, float], population: int) -> float:
    """Return the variance to plan with: of the scores so far, and two more at either bound.

    So equal scores of a few items do not say that all others are equal, too (Agresti and Coull, The American
    Statistician 52, 1998, add as many to a share). It is at most the widest that there can be, of a
    population of which one half has the one bound and the other the other (Popoviciu 1935), with the divisor
    N - 1; which it is where nothing has been scored.

    >>> likely_variance([], (0, 1), 100) == 0.25 * 100 / 99
    True
    """
    low, high = bounds
    widest = (high - low) ** 2 / 4 * population / max(population - 1, 1)
    if not values:
        return widest
    return min(float(np.var([*values, *[low, high] * AT_EACH_END], ddof=1)), widest)
