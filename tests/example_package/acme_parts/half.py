"""A step of a chain."""

from __future__ import annotations

from typing import ClassVar

from evals.retrieving.contract import Kind, Query, Ranking, Step
from evals.retrieving.index import OpenIndex


class Half(Step):
    """Keeps the first half of a ranking.

    least: so many are kept however few there are
    """

    kind: ClassVar[str] = "acme_half"
    role: ClassVar[Kind] = "cut"

    least: int = 1

    def apply(self, ranking: Ranking, query: Query, index: OpenIndex) -> Ranking:
        """Return the first half."""
        return ranking.take(slice(max(self.least, len(ranking) // 2)))
