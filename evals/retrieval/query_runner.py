"""Runs queries on one searcher: rows, hits and traces of each question, with its latency."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from rag_assay.evals.retrieval.clock import Clock, Spent
from rag_assay.evals.retrieval.contract import Searcher
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.passage_steps import delivered_spans, distinct
from rag_assay.evals.retrieval.query import Query, Removal, Trace
from rag_assay.evals.retrieval.query_vectors import QueryVector
from rag_assay.evals.retrieval.ranking import Mask, Ranking
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.schemas import Status
from rag_assay.warehouse.spans import Span

WARM_UPS = 10  # questions that are tried at most until one finds something


class Hit(NamedTuple):
    """A passage that was found, `index.passage(*hit.span)`; ranks start at 1."""

    rank: int
    chunk_id: str
    doc_id: str
    start: int
    end: int
    score: float

    @property
    def span(self) -> Span:
        return Span(self.doc_id, self.start, self.end)


@dataclass(frozen=True)
class QueryResult:
    """What came of one question; of one that failed there are no hits and no time spent."""

    question_id: str
    status: Status
    trace: Trace
    hits: tuple[Hit, ...] = ()
    reason: str | None = None
    spent: Spent | None = None


@dataclass(frozen=True)
class QueryRunner:
    """Asks questions, one by one."""

    searcher: Searcher
    index: OpenIndex
    vectors: Mapping[str, QueryVector]
    clock: Clock

    def ask(
        self,
        question: Mapping[str, Any],
        *,
        remembered: bool = True,
        allowed: Mask | None = None,
        without: Iterable[Removal] = (),
    ) -> QueryResult:
        """Search for a row of `schemas.QUESTIONS`; cached parts count their seconds. allowed: None: all"""
        embedded = self.vectors.get(question["question"])
        query = Query(
            question["question"],
            embedded.vector if embedded else None,
            question.get("asked_at"),
            tuple(question.get("conversation") or ()),
            allowed=allowed,
            without=frozenset(without),
            remembered=remembered,
            question_id=question["question_id"],
        )
        begin = self.clock.now()
        try:
            ranking = self._ranking(query, embedded)
        except Exception as error:  # one question's failure is a row; the others go on
            reason = f"{type(error).__name__}: {error}"
            return QueryResult(question["question_id"], Status.ERROR, query.trace, reason=reason)
        spent = self.clock.since(begin) + (embedded.spent if embedded else Spent())
        hits = hits_of(ranking, self.index)
        return QueryResult(question["question_id"], Status.OK, query.trace, hits, spent=spent)

    def _ranking(self, query: Query, embedded: QueryVector | None) -> Ranking:
        if embedded and embedded.refused:
            raise InputError(embedded.refused)
        ranking = self.searcher.search(query)
        if not np.isfinite(ranking.scores).all():
            raise ValueError("the retriever gave a score that is not a finite number")
        return ranking


def warm_up(runner: QueryRunner, questions: pl.DataFrame) -> None:
    """Search without a clock until a question finds something: what is made at first use is no latency."""
    for question in questions.head(WARM_UPS).iter_rows(named=True):
        if runner.ask(question, remembered=False).hits:
            return


def hits_of(ranking: Ranking, index: OpenIndex) -> tuple[Hit, ...]:
    ids = index.ids
    found = ranking.take(np.array(distinct(ranking, index), np.int64))
    rows = zip(ids[found.rows], delivered_spans(found, index), found.scores.tolist(), strict=True)
    return tuple(Hit(rank, chunk_id, *span, score) for rank, (chunk_id, span, score) in enumerate(rows, 1))
