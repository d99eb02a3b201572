"""A query transform."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from evals.retrieving.contract import Query, QueryTransform
from evals.retrieving.index import OpenIndex


class Loud(QueryTransform):
    """Asks in capitals."""

    kind: ClassVar[str] = "acme_loud"

    def read(self, query: Query, index: OpenIndex) -> list[Query]:
        """Return the question in capitals."""
        return [replace(query, text=query.text.upper())]
