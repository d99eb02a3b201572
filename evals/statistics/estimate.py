"""A number that was estimated from cases, with its interval; or why there is none."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

CONFIDENCE = 0.95
Z = 1.959963984540054
"""The normal distribution's quantile of a two-sided 95 % interval."""
Floats = npt.NDArray[np.float64]


class Estimate(NamedTuple):
    """A value with its 95 % interval.

    value: None where there is none: `reason` says why
    low, high: bounds of the interval; None where there is none, of a value or without: `reason` says why
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0
    reason: str | None = None


def paired(one: Floats, other: Floats) -> None:
    """Check that two lists are of the same cases and hold nothing but numbers."""
    if one.shape != other.shape or one.ndim != 1:
        raise ValueError(f"two lists of the same cases are compared, not {one.shape} and {other.shape}")
    if not (np.isfinite(one).all() and np.isfinite(other).all()):
        raise ValueError("a value that is not finite cannot be compared")
