"""The retriever that finds nothing."""

from __future__ import annotations

from typing import ClassVar

from evals.retrieving.contract import Depth, Query, Ranking, Retriever, nothing
from evals.retrieving.index import OpenIndex


class Nothing(Retriever):
    """Finds no passage for any question: what a model answers from is what it knows by itself."""

    kind: ClassVar[str] = "nothing"
    code_version: ClassVar[str] = "1"

    k: Depth = 10

    def rank(self, query: Query, index: OpenIndex) -> Ranking:
        """Return the empty ranking."""
        return nothing()
