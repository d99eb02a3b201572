"""A step of a chain."""

from __future__ import annotations

from typing import ClassVar

from rag_assay.evals.retrieval.context import RetrievalContext
from rag_assay.evals.retrieval.contract import OpenStep, Step
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.query import Kind


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
