"""What the journey of every question is made of: hits of all rankings, their texts, and the way they took."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from rag_assay.warehouse.schemas import HITS, Schema

HITS_SHOWN = 10  # of a question and ranking
OF_HITS: Schema = {"ranking": pl.String, **HITS}
ENDED: Schema = {"ranking": pl.String, "question_id": pl.String, "status": pl.String, "reason": pl.String}
TAKEN: Schema = {
    "ranking": pl.String,
    "question_id": pl.String,
    "rank": pl.Int64,  # of the hit
    "step": pl.String,  # of the chain: an arm, or what re-ordered, filtered or cut
    "kind": pl.String,
    "order": pl.Int64,  # of the step among those of the question
    "at": pl.Int64,  # rank of the hit's chunk after this step, from 1
}
LOST: Schema = {
    "ranking": pl.String,
    "question_id": pl.String,
    "evidence": pl.Int64,
    "lost_at": pl.String,
    "step": pl.String,
    "found_at": pl.Int64,
}
PASSAGES: Schema = {"doc_id": pl.String, "start": pl.Int64, "end": pl.Int64, "text": pl.String}
DOCUMENTS: Schema = {"doc_id": pl.String, "source": pl.String, "url": pl.String, "title": pl.String}


@dataclass(frozen=True, eq=False)
class JourneyRows:
    """All that a question's journey shows beside what a report reads anyway.

    rankings: cell -> the ranking that it reads; its own key where a sheet has passages beside its answers
    hits: schema OF_HITS, the first ones of every question and ranking
    ended: schema ENDED, of rankings that failed on a question
    taken: schema TAKEN, where each hit's chunk was after each step
    lost: schema LOST
    passages: schema PASSAGES, stretches of documents that hold every hit; no two of them overlap
    documents: schema DOCUMENTS, those of hits and of evidence
    """

    rankings: Mapping[str, str]
    hits: pl.DataFrame
    ended: pl.DataFrame
    taken: pl.DataFrame
    lost: pl.DataFrame
    passages: pl.DataFrame
    documents: pl.DataFrame


def no_journeys() -> JourneyRows:
    """Return what is known where nothing was read."""
    frames = (OF_HITS, ENDED, TAKEN, LOST, PASSAGES, DOCUMENTS)
    return JourneyRows({}, *(pl.DataFrame(schema=schema) for schema in frames))


def merged(hits: pl.DataFrame) -> pl.DataFrame:
    """Return the stretches of documents that hold all hits: doc_id, start, end; overlapping ones are one.

    >>> hits = pl.DataFrame({"doc_id": ["a", "a", "a"], "start": [0, 5, 20], "end": [10, 15, 30]})
    >>> merged(hits).rows()
    [('a', 0, 15), ('a', 20, 30)]
    """
    spans = hits.select("doc_id", "start", "end").unique().sort("doc_id", "start", "end")
    reached = pl.col("end").cum_max().shift(1).over("doc_id")
    begins = (reached.is_null() | (pl.col("start") > reached)).cast(pl.Int64)
    grouped = spans.with_columns(part=begins.cum_sum())
    found = grouped.group_by("doc_id", "part").agg(pl.col("start").min(), pl.col("end").max())
    return found.sort("doc_id", "start").drop("part")
