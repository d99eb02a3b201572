"""Wilson's interval of a share."""

from __future__ import annotations

import math

from rag_assay.evals.statistics.estimate import Estimate, Z


def share(hits: float, n: int) -> Estimate:
    """Return hits / n with Wilson's score interval (JASA 1927): it holds for few cases, and for none or all.

    Raises:
        ValueError: there are fewer than 0 hits, or more than n.

    hits: a sum of shares where a case may count in part

    >>> found = share(8, 10)
    >>> found.value, round(found.low, 3), round(found.high, 3)
    (0.8, 0.49, 0.943)
    >>> share(0, 0).reason
    'there is no case'
    """
    if not 0 <= hits <= n:
        raise ValueError(f"{hits} of {n} is no share")
    if not n:
        return Estimate(None, reason="there is no case")
    found, square = hits / n, Z * Z
    middle = (found + square / (2 * n)) / (1 + square / n)
    half = Z / (1 + square / n) * math.sqrt(found * (1 - found) / n + square / (4 * n * n))
    low = 0.0 if hits == 0 else middle - half
    return Estimate(found, low, 1.0 if hits == n else middle + half, n)


def least_of_all(n: int) -> float:
    """Return the lower bound of a share of n hits in n cases: what agreement without exception shows.

    >>> round(least_of_all(10), 3)
    0.722
    """
    return n / (n + Z * Z)
