"""Rankings that a run has made, kept for the retrievers that share an arm."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from rag_assay.evals.retrieval.clock import Spent
from rag_assay.evals.retrieval.query import Note, TraceStep
from rag_assay.evals.retrieval.query_interpretation import QueryInterpretation
from rag_assay.evals.retrieval.ranking import Mask, Ranking


class SearchResult(NamedTuple):
    """What a retriever found for one question.

    spent: what it took
    steps, notes, understood: what its own parts recorded
    allowed: which rows its filters let through, shape (chunks,); None: all
    """

    ranking: Ranking
    spent: Spent
    steps: tuple[TraceStep, ...]
    notes: tuple[Note, ...]
    allowed: Mask | None
    understood: tuple[QueryInterpretation, ...] = ()


@dataclass
class Memory:
    """Rankings of one index and run, so that an arm that several combinations share ranks a question once.

    limit: rows that are held at most, those of the steps inside among them; all are dropped when it is
        reached (16 bytes a row)
    """

    limit: int = 4_000_000
    held: dict[object, SearchResult] = field(default_factory=dict)
    rows: int = 0

    def keep(self, key: object, found: SearchResult) -> None:
        """Hold a ranking."""
        rows = len(found.ranking) + sum(len(step.rows) for step in found.steps)
        if self.rows + rows > self.limit:
            self.held.clear()
            self.rows = 0
        self.held[key] = found
        self.rows += rows
