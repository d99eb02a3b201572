"""Percentile bootstrap intervals of a mean over questions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

RESAMPLES = 2_000
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """Mean of the values that there are, with the bounds of its bootstrap interval; NaN-free or None."""

    mean: float
    low: float
    high: float


def bootstrap(values: npt.NDArray[np.float64], seed: int) -> Interval | None:
    """Return the mean and its 95 % percentile interval (Efron, Annals of Statistics 1979), or None.

    Args:
        values: one a question, shape (n,), finite.
        seed: the study's; cells with the same questions are resampled alike, so that their intervals compare.

    >>> bootstrap(np.array([1.0, 1.0, 1.0]), seed=7)
    Interval(mean=1.0, low=1.0, high=1.0)
    """
    if not len(values):
        return None
    if not np.isfinite(values).all():
        raise ValueError("a value that is not finite has no place in a mean")
    draws = np.random.default_rng(seed).integers(0, len(values), size=(RESAMPLES, len(values)))
    means = values[draws].mean(axis=1)
    tail = (1 - CONFIDENCE) / 2 * 100
    low, high = np.percentile(means, [tail, 100 - tail])
    return Interval(float(values.mean()), float(low), float(high))
