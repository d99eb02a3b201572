"""Asks one retriever questions: rows, hits and traces of each, with the seconds that it took."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import polars as pl

from evals.retrieving.contract import Kit, Query, Ranking, Trace
from evals.retrieving.index import OpenIndex
from evals.retrieving.queries import QueryVector
from warehouse.schemas import Status


class Asked(NamedTuple):
    """What one question came to: its row, its hits, and the candidates of each step, as rows and as noted."""

    ranked: dict[str, Any]
    hits: list[dict[str, Any]]
    steps: list[dict[str, Any]]
    trace: Trace


@dataclass(frozen=True)
class Asker:
    """Asks one retriever questions, one by one.

    recipe: a retriever as its study writes it
    vectors: of the questions, where it needs them
    depth: how many candidates of each step are kept
    """

    recipe: Any
    index: OpenIndex
    vectors: dict[str, QueryVector]
    kit: Kit
    depth: int

    def ask(self, question: dict[str, Any]) -> Asked:
        """Rank for a question, a row of `schemas.QUESTIONS`.

        Its seconds are those of understanding, embedding and searching it by itself: what another retriever
        or question of the run had computed before is counted as if it were computed now.
        """
        vector = self.vectors.get(question["question"])
        trace = Trace(depth=self.depth)
        query = Query(
            question["question"],
            vector.vector if vector else None,
            question.get("asked_at"),
            tuple(question.get("conversation") or ()),
            kit=self.kit,
            trace=trace,
        )
        own = {"question_id": question["question_id"]}
        saved, begin = self.kit.clock.saved, time.perf_counter()
        try:
            ranking = self.recipe.ranked(query, self.index)
        except Exception as error:  # one question's failure is a row; the others go on
            reason = f"{type(error).__name__}: {error}"
            failed = {"status": Status.ERROR, "reason": reason, "seconds": None, "n_hits": None}
            return Asked({**own, **failed}, [], [], trace)
        seconds = time.perf_counter() - begin + self.kit.clock.saved - saved
        seconds += vector.seconds if vector else 0.0
        hits = [{**own, **hit} for hit in _hits(ranking, self.index)]
        row = {"status": Status.OK, "reason": None, "seconds": seconds, "n_hits": len(hits)}
        ids = self.index.chunks["chunk_id"]
        steps = [
            {**own, "step": note.step, "kind": note.kind, "chunk_ids": ids.gather(note.rows).to_list()}
            for note in trace.steps
        ]
        return Asked({**own, **row}, hits, steps, trace)


def warm_up(asker: Asker, questions: pl.DataFrame) -> None:
    """Rank one question without a clock: what an index makes at first use is no question's latency."""
    cold = replace(asker, kit=replace(asker.kit, memory=None))
    for question in questions.head(1).iter_rows(named=True):
        cold.ask(question)


def _hits(ranking: Ranking, index: OpenIndex) -> list[dict[str, Any]]:
    """Return what is delivered, best first; a stretch that two chunks share is delivered once."""
    columns = ("chunk_id", "doc_id", "context_start", "context_end")
    places = index.made("places", lambda: index.chunks.select(columns).rows())
    found: dict[tuple[str, int, int], dict[str, Any]] = {}
    for position, (row, score) in enumerate(zip(ranking.rows, ranking.scores, strict=True)):
        chunk_id, doc_id, start, end = places[row]
        if ranking.stretches is not None:
            start, end = (int(at) for at in ranking.stretches[position])
        hit = {"chunk_id": chunk_id, "doc_id": doc_id, "start": start, "end": end, "score": float(score)}
        found.setdefault((doc_id, start, end), hit)
    return [{"rank": rank, **hit} for rank, hit in enumerate(found.values(), 1)]
