"""A query transform."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from rag_assay.evals.retrieval.context import RetrievalContext
from rag_assay.evals.retrieval.contract import OpenTransform, QueryTransform
from rag_assay.evals.retrieval.index import OpenIndex


class Loud(QueryTransform):
    """Asks in capitals."""

    kind: ClassVar[str] = "acme_loud"

    def open(self, index: OpenIndex, context: RetrievalContext) -> OpenTransform:
        """Write questions in capitals."""
        return OpenTransform(lambda query: [replace(query, text=query.text.upper())])
