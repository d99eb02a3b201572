"""What the journey of every question is made of, and how it is read: hits, texts, steps, losses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl
import pyarrow.parquet as pq

from rag_assay.evals.pipeline.passages import contexts_of
from rag_assay.evals.reporting.stored_rows import only_question, select_rows
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.schemas import HITS, Schema

if TYPE_CHECKING:
    import duckdb


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
    """What journeys show beside the rows of a report.

    rankings: cell -> the ranking that it reads; its own key if its passages are stored with its answers
    hits: schema OF_HITS, the first ones of every question and ranking
    ended: schema ENDED, of rankings that failed on a question
    taken: schema TAKEN, where each hit's chunk was after each step
    lost: schema LOST
    passages: schema PASSAGES, disjoint stretches of documents that hold every hit
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
    frames = (OF_HITS, ENDED, TAKEN, LOST, PASSAGES, DOCUMENTS)
    return JourneyRows({}, *(pl.DataFrame(schema=schema) for schema in frames))


def merged(hits: pl.DataFrame) -> pl.DataFrame:
    """Return the stretches of documents that hold all hits, merged where they overlap."""
    spans = hits.select("doc_id", "start", "end").unique().sort("doc_id", "start", "end")
    reached = pl.col("end").cum_max().shift(1).over("doc_id")
    begins = (reached.is_null() | (pl.col("start") > reached)).cast(pl.Int64)
    grouped = spans.with_columns(part=begins.cum_sum())
    found = grouped.group_by("doc_id", "part").agg(pl.col("start").min(), pl.col("end").max())
    return found.sort("doc_id", "start").drop("part")


_BATCH = 500  # documents whose texts are held at once


def journey_rows(
    connection: duckdb.DuckDBPyConnection,
    study: Study,
    store: ArtifactStore,
    cells: list[str],
    questions: pl.DataFrame,
    question: str | None = None,
) -> JourneyRows:
    """Read the journeys of a study's questions, or of one; cells: those that were run."""
    grid = Grid([study])
    known = [grid.cells[key] for key in cells if key in grid.cells]
    rankings = {cell.key: cell.ranking for cell in known if cell.reads_ranking}
    names = sorted(set(rankings.values()))
    hits, ended, lost = ranking_rows(connection, names, question)
    others, texts = _of_contexts(store, [cell.key for cell in known if cell.has_contexts], question)
    spans = merged(pl.concat([hits, others.filter(~pl.col("doc_id").is_in(texts["doc_id"].implode()))]))
    documents, passages = _documents(study, store, spans, evidence_documents(questions))
    return JourneyRows(
        rankings | {key: key for key in others["ranking"].unique()},
        pl.concat([hits, others]),
        ended,
        _taken(store, names, hits),
        lost,
        pl.concat([passages, texts]),
        documents,
    )


def ranking_rows(
    connection: duckdb.DuckDBPyConnection, rankings: list[str], question: str | None = None
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Return hits, questions on which rankings failed, and losses."""
    hits = f"SELECT * FROM current_hits WHERE list_contains(?, ranking) AND rank <= {HITS_SHOWN}"  # noqa: S608
    ended = (
        "SELECT p.key AS ranking, r.question_id, r.status, r.reason FROM ranked r JOIN pointers p "
        "ON p.stage = 'rankings' AND p.artifact_id = r.artifact_id "
        "WHERE list_contains(?, p.key) AND r.status <> 'ok'"
    )
    lost = "SELECT * FROM current_losses WHERE list_contains(?, ranking)"

    def read(sql: str, schema: Schema) -> pl.DataFrame:
        return select_rows(connection, *only_question(sql, [rankings], question), schema)

    return read(hits, OF_HITS), read(ended, ENDED), read(lost, LOST)


def evidence_documents(questions: pl.DataFrame) -> set[str]:
    pieces = questions["evidence"].explode().drop_nulls()
    return set(pieces.struct.field("doc_id").drop_nulls()) if len(pieces) else set()


def _documents(
    study: Study, store: ArtifactStore, spans: pl.DataFrame, others: set[str]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    wanted = others | set(spans["doc_id"])
    documents, texts = [], []
    for source in study.corpus.sources:
        artifact = store.current("documents", source)
        if artifact is None:
            continue
        path = store.folder("documents", artifact.identity) / "documents.parquet"
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(_BATCH, columns=["doc_id", "url", "title", "text"]):
                rows = pl.DataFrame(batch).filter(pl.col("doc_id").is_in(wanted))
                documents.append(rows.select("doc_id", pl.lit(source).alias("source"), "url", "title"))
                texts.append(cut(rows, spans))
    empty = pl.DataFrame(schema=DOCUMENTS), pl.DataFrame(schema=PASSAGES)
    return pl.concat([empty[0], *documents]), pl.concat([empty[1], *texts])


def cut(documents: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    """Return spans of documents (doc_id, text) with their texts (PASSAGES)."""
    own = spans.filter(pl.col("doc_id").is_in(documents["doc_id"].implode()))
    texts = dict(documents.select("doc_id", "text").iter_rows())
    # A slice of a str takes no time that grows with the document, one in polars does.
    found = [texts[doc][start:end] for doc, start, end in own.iter_rows()]
    return own.with_columns(pl.Series("text", found, dtype=pl.String)).select(*PASSAGES)


def _of_contexts(
    store: ArtifactStore, cells: list[str], only: str | None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the passages beside answers as hits, and the texts of those that are in no document."""
    hits, texts = [], []
    for key in cells:
        answers = store.current("answers", key)
        for question, passages in (contexts_of(store, answers) if answers else {}).items():
            for rank, one in enumerate(passages[:HITS_SHOWN] if only in {None, question} else (), 1):
                name = f"{key} {question} {one.chunk}"
                if one.document and one.end:
                    hits.append([key, question, rank, one.chunk, one.document, one.start, one.end, None])
                    continue
                hits.append([key, question, rank, one.chunk, name, 0, len(one.text), None])
                texts.append([name, 0, len(one.text), one.text])
    return (
        pl.DataFrame(hits, schema=OF_HITS, orient="row"),
        pl.DataFrame(texts, schema=PASSAGES, orient="row"),
    )


def _taken(store: ArtifactStore, rankings: list[str], hits: pl.DataFrame) -> pl.DataFrame:
    found = [pl.DataFrame(schema=TAKEN)]
    by_ranking = hits.partition_by("ranking", as_dict=True)
    for key in rankings:
        artifact, own = store.current("rankings", key), by_ranking.get((key,))
        path = artifact and store.folder("rankings", artifact.identity) / "trace.parquet"
        if path and path.exists() and own is not None:
            asked = pl.col("question_id").is_in(own["question_id"].unique().implode())
            found.append(taken(pl.scan_parquet(path).filter(asked).collect(), own))
    return pl.concat(found)


def taken(traces: pl.DataFrame, hits: pl.DataFrame) -> pl.DataFrame:
    """Return where the chunks of a ranking's hits were after each step (TAKEN)."""
    steps = traces.with_columns(order=pl.int_range(pl.len()).over("question_id"))
    exploded = (
        steps.with_columns(at=pl.int_ranges(1, pl.col("chunk_ids").list.len() + 1))
        .explode("chunk_ids", "at")
        .rename({"chunk_ids": "chunk_id"})
    )
    wanted = hits.select("ranking", "question_id", "rank", "chunk_id")
    found = exploded.join(wanted, on=["question_id", "chunk_id"])
    return found.select(pl.col(name).cast(kind) for name, kind in TAKEN.items())
