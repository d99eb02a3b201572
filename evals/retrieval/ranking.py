"""What a search returns: rows of an index in an order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

Vector: TypeAlias = "npt.NDArray[np.float32]"
Rows: TypeAlias = "npt.NDArray[np.int64]"
Scores: TypeAlias = "npt.NDArray[np.float64]"
Mask: TypeAlias = "npt.NDArray[np.bool_]"


@dataclass(frozen=True)
class Ranking:
    """Rows of an index, best first, each once.

    rows: positions in the index, shape (n,)
    scores: finite, shape (n,); falling, equal ones ordered by chunk id, until a step sets a reading order
    spans: characters (start, end) of each row's document that are delivered, shape (n, 2); None: each
        chunk's own context
    """

    rows: Rows
    scores: Scores
    spans: npt.NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, positions: npt.NDArray[np.int64] | npt.NDArray[np.bool_] | slice) -> Ranking:
        spans = None if self.spans is None else self.spans[positions]
        return Ranking(self.rows[positions], self.scores[positions], spans)

    @staticmethod
    def best(rows: Rows, scores: Scores, k: int) -> Ranking:
        """Sort by falling score, ties by position (an index is sorted by chunk id), and keep the first k."""
        if len(rows) > 4 * k:  # sort only what can be among the first k, all ties of the last one included
            keep = scores >= lower_bound(scores, k)
            rows, scores = rows[keep], scores[keep]
        order = np.lexsort((rows, -scores))[:k]
        return Ranking(rows[order].astype(np.int64), scores[order].astype(np.float64))


def lower_bound(scores: Scores, k: int) -> float:
    """Return a score that at least k of the scores reach, close to the k-th best; -inf if there are fewer.

    It is the k-th best of the maxima of groups, which are computed ten times faster than all are sorted.

    >>> lower_bound(np.array([1.0, 4.0, 2.0]), 2), lower_bound(np.array([1.0]), 2)
    (2.0, -inf)
    """
    if len(scores) < k:
        return -np.inf
    size = min(64, len(scores) // (8 * k))
    if size > 1:
        groups = len(scores) // size
        scores = scores[: groups * size].reshape(size, groups).max(axis=0)
    return float(np.partition(scores, len(scores) - k)[len(scores) - k])


def nothing() -> Ranking:
    return Ranking(np.zeros(0, np.int64), np.zeros(0, np.float64))
