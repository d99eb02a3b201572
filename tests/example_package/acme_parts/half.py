"""A step of a chain."""

from __future__ import annotations

from typing import ClassVar

from evals.retrieving.context import RetrievalContext
from evals.retrieving.contract import OpenStep, Step
from evals.retrieving.index import OpenIndex
from evals.retrieving.query import Kind


class Half(Step):
    """Keeps the first half of a ranking.

    least: so many are kept however few there are
    """

    kind: ClassVar[str] = "acme_half"
    role: ClassVar[Kind] = "cut"

    least: int = 1

    def open(self, index: OpenIndex, context: RetrievalContext) -> OpenStep:
        """Keep the first half."""
        return OpenStep(lambda ranking, query: ranking.take(slice(max(self.least, len(ranking) // 2))))
