"""The rows that a ranking is stored as."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rag_assay.evals.question_sets.losses import losses_of
from rag_assay.evals.retrieval.clock import Spent
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.query import Note
from rag_assay.evals.retrieval.query_runner import QueryResult
from rag_assay.warehouse.parquet import frame, write_parquet
from rag_assay.warehouse.schemas import HITS, LOSSES, NOTES, RANKED, TRACES, Schema, Status

Row = dict[str, Any]


class RankingRows:
    """Collects rows of `schemas.RANKED`, `HITS`, `LOSSES` and, of the first ``depth`` candidates, traces."""

    def __init__(self, index: OpenIndex, depth: int) -> None:
        self._index = index
        self._depth = depth
        self.ranked: list[Row] = []
        self.hits: list[Row] = []
        self.notes: list[Note] = []
        self.spent: list[Spent] = []
        self.steps: list[Row] = []
        self.losses: list[Row] = []
        self._notes: list[Row] = []

    def add(self, question: Mapping[str, Any], result: QueryResult) -> None:
        ids = {"question_id": result.question_id}
        seconds, count = (result.spent.seconds, len(result.hits)) if result.spent else (None, None)
        ended = {"status": result.status, "reason": result.reason}
        self.ranked.append({**ids, **ended, "seconds": seconds, "n_hits": count})
        self.notes += result.trace.notes
        self._notes += [{**ids, **note._asdict()} for note in result.trace.notes]
        if result.status is not Status.OK or result.spent is None:
            return
        self.spent.append(result.spent)
        self.hits += [{**ids, **hit._asdict()} for hit in result.hits]
        self.steps += [{**ids, **step} for step in self._stored(result)]
        self.losses += losses_of(question, result.trace, [hit.span for hit in result.hits], self._index)

    def _stored(self, result: QueryResult) -> list[Row]:
        ids = self._index.ids
        return [
            {
                "step": step.step,
                "kind": step.kind,
                "chunk_ids": ids[step.rows[: self._depth]].to_list(),
            }
            for step in result.trace.steps
        ]

    def write(self, folder: Path) -> None:
        tables: dict[str, tuple[list[Row], Schema]] = {
            "hits": (self.hits, HITS),
            "ranked": (self.ranked, RANKED),
            "trace": (self.steps, TRACES),
            "losses": (self.losses, LOSSES),
            "notes": (self._notes, NOTES),
        }
        for name, (rows, schema) in tables.items():
            write_parquet(frame(rows, schema), folder / f"{name}.parquet")
