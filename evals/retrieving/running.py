"""Asks one retriever questions: rows, hits and traces of each, with the seconds that it took."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from evals.retrieving.clock import Spent
from evals.retrieving.contract import Query, Ranking, RetrievalContext, Retriever, Trace
from evals.retrieving.delivering import delivered, distinct
from evals.retrieving.index import OpenIndex
from evals.retrieving.queries import QueryVector
from warehouse.errors import InputError
from warehouse.schemas import Status

WARM_UPS = 10  # questions that are tried at most until one finds something


class QueryResult(NamedTuple):
    """What one question came to: its row, its hits, and the candidates of each step, as rows and as noted.

    spent: None where it failed
    notes: what its steps of understanding had to say (`understanding.notes.Note`)
    """

    ranked: dict[str, Any]
    hits: list[dict[str, Any]]
    steps: list[dict[str, Any]]
    trace: Trace
    spent: Spent | None = None
    notes: tuple[Any, ...] = ()


@dataclass(frozen=True)
class QueryRunner:
    """Asks one retriever questions, one by one.

    vectors: of the questions, where it needs them
    depth: how many candidates of each step are stored, the first ones
    """

    recipe: Retriever
    index: OpenIndex
    vectors: dict[str, QueryVector]
    context: RetrievalContext
    depth: int

    def ask(self, question: dict[str, Any]) -> QueryResult:
        """Rank for a question, a row of `schemas.QUESTIONS`.

        Its seconds are those of understanding, embedding and searching it by itself: what another retriever
        or question of the run had computed before is counted as if it were computed now.
        """
        own = {"question_id": question["question_id"]}
        embedded = self.vectors.get(question["question"])
        trace, context = Trace(), replace(self.context, notes={})
        query = Query(
            question["question"],
            embedded.vector if embedded else None,
            question.get("asked_at"),
            tuple(question.get("conversation") or ()),
            context=context,
            trace=trace,
        )
        begin = context.clock.now()
        try:
            ranking = self._ranking(query, embedded)
        except Exception as error:  # one question's failure is a row; the others go on
            reason = f"{type(error).__name__}: {error}"
            failed = {"status": Status.ERROR, "reason": reason, "seconds": None, "n_hits": None}
            return QueryResult({**own, **failed}, [], [], trace, notes=tuple(context.notes))
        spent = context.clock.since(begin) + (embedded.spent if embedded else Spent())
        hits = [{**own, **hit} for hit in _hits(ranking, self.index)]
        row = {"status": Status.OK, "reason": None, "seconds": spent.seconds, "n_hits": len(hits)}
        return QueryResult({**own, **row}, hits, self._stored(own, trace), trace, spent, tuple(context.notes))

    def _ranking(self, query: Query, embedded: QueryVector | None) -> Ranking:
        if embedded and embedded.refused:
            raise InputError(embedded.refused)
        ranking = self.recipe.ranked(query, self.index)
        if not np.isfinite(ranking.scores).all():
            raise ValueError("the retriever gave a score that is no finite number")
        return ranking

    def _stored(self, own: dict[str, Any], trace: Trace) -> list[dict[str, Any]]:
        """Return the first candidates of each step (schemas.TRACES)."""
        ids = self.index.chunks["chunk_id"]
        return [
            {
                **own,
                "step": note.step,
                "kind": note.kind,
                "chunk_ids": ids.gather(note.rows[: self.depth]).to_list(),
            }
            for note in trace.steps
        ]


def warm_up(runner: QueryRunner, questions: pl.DataFrame) -> None:
    """Rank without a clock until a question finds something: what is made at first use is no latency."""
    cold = replace(runner, context=replace(runner.context, memory=None))
    for question in questions.head(WARM_UPS).iter_rows(named=True):
        if cold.ask(question).hits:
            return


def _hits(ranking: Ranking, index: OpenIndex) -> list[dict[str, Any]]:
    """Return what is delivered, best first; a span that two chunks share is delivered once."""
    ids = index.chunks["chunk_id"]
    found = ranking.take(np.array(distinct(ranking, index), np.int64))
    rows = zip(ids.gather(found.rows), found.scores.tolist(), delivered(found, index), strict=True)
    return [
        {"rank": rank, "chunk_id": chunk_id, **span._asdict(), "score": score}
        for rank, (chunk_id, score, span) in enumerate(rows, 1)
    ]
