"""A number that was estimated from cases, with its interval; or why there is none."""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt


def share(hits: float, n: int) -> Estimate:
    """Return hits / n with Wilson's score interval (JASA 1927): it holds for few cases, and for none or all.

    >>> found = share(8, 10)
    >>> found.value, round(found.low, 3), round(found.high, 3)
    (0.8, 0.49, 0.943)
    """
    if not 0 <= hits <= n:
        raise ValueError(f"{hits} of {n} is not a share")
    if not n:
        return Estimate(None, reason="there is no case")
    found, square = hits / n, Z * Z
    middle = (found + square / (2 * n)) / (1 + square / n)
    half = Z / (1 + square / n) * math.sqrt(found * (1 - found) / n + square / (4 * n * n))
    low = 0.0 if hits == 0 else middle - half
    return Estimate(found, low, 1.0 if hits == n else middle + half, n)


def least_of_all(n: int) -> float:
    """Return Wilson's lower bound of n hits in n cases."""
    return n / (n + Z * Z)


CONFIDENCE = 0.95
Z = 1.959963984540054  # the normal distribution's quantile of a two-sided 95 % interval
Floats: TypeAlias = "npt.NDArray[np.float64]"


class Estimate(NamedTuple):
    """A value with its 95 % interval; `reason` says why one is None."""

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0
    reason: str | None = None


def paired(one: Floats, other: Floats) -> None:
    """Check that two lists are of the same cases and hold numbers only."""
    if one.shape != other.shape or one.ndim != 1:
        raise ValueError(f"two lists of the same cases are compared, not {one.shape} and {other.shape}")
    if not (np.isfinite(one).all() and np.isfinite(other).all()):
        raise ValueError("a value that is not finite cannot be compared")
