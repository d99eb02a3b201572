"""Normalises the scores of different retrievers to one scale."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from rag_assay.evals.retrieval.ranking import Scores

Normalisation = Literal["min_max", "z_score", "sum"]


def min_max(scores: Scores) -> Scores:
    """Return (score - lowest) / (highest - lowest), in [0, 1]; equal scores are all 1, each being the best.

    >>> min_max(np.array([9.0, 7.0, 5.0])).tolist(), min_max(np.array([3.0, 3.0])).tolist()
    ([1.0, 0.5, 0.0], [1.0, 1.0])
    """
    if not len(scores):
        return scores
    low, high = scores.min(), scores.max()
    return (scores - low) / (high - low) if high > low else np.ones_like(scores)


def z_score(scores: Scores) -> Scores:
    """Return (score - mean) / standard deviation (of the ranking, not of a sample); equal scores are all 0.

    >>> z_score(np.array([9.0, 5.0])).tolist(), z_score(np.array([3.0])).tolist()
    ([1.0, -1.0], [0.0])
    """
    if not len(scores) or scores.max() == scores.min():
        return np.zeros_like(scores)
    spread = min_max(scores)  # the same z; the squares of scores near 0 would be 0, and so their deviation
    return (spread - spread.mean()) / spread.std()


def sum_to_one(scores: Scores) -> Scores:
    """Return (score - lowest) / sum of these, which add up to 1; equal scores have equal shares.

    The lowest is taken off first because scores may be negative, as in ranx (`sum_norm`).

    >>> sum_to_one(np.array([6.0, 4.0, 3.0])).tolist(), sum_to_one(np.array([2.0, 2.0])).tolist()
    ([0.75, 0.25, 0.0], [0.5, 0.5])
    """
    if not len(scores):
        return scores
    raised = scores - scores.min()
    total = raised.sum()
    return raised / total if total > 0 else np.full_like(scores, 1 / len(scores))


NORMALISED: dict[Normalisation, Callable[[Scores], Scores]] = {
    "min_max": min_max,
    "z_score": z_score,
    "sum": sum_to_one,
}
