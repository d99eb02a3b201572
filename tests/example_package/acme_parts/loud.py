"""A query transform."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from evals.retrieving.context import RetrievalContext
from evals.retrieving.contract import OpenTransform, QueryTransform
from evals.retrieving.index import OpenIndex


class Loud(QueryTransform):
    """Asks in capitals."""

    kind: ClassVar[str] = "acme_loud"

    def open(self, index: OpenIndex, context: RetrievalContext) -> OpenTransform:
        """Write questions in capitals."""
        return OpenTransform(lambda query: [replace(query, text=query.text.upper())])
