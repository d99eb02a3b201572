"""What the generator of a cell reads, as artifacts and as passages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from rag_assay.assets.cleaning.corpus import corpus_documents
from rag_assay.assets.engine.stage import BuildContext, PartitionRef
from rag_assay.evals.generation.contract import Generator, Passage
from rag_assay.evals.metrics.token_budget import CHARACTERS_A_TOKEN
from rag_assay.evals.pipeline.passages import Headings, evidence_passages, passage_of
from rag_assay.evals.pipeline.run_resources import RunResources
from rag_assay.evals.study.cells import Cell
from rag_assay.evals.study.grid import Grid
from rag_assay.warehouse.artifacts import Artifact
from rag_assay.warehouse.parquet import read_parquet
from rag_assay.warehouse.schemas import Status

Passages = dict[str, list[Passage]]
"""Question id -> what is read for it; a question whose ranking failed is absent."""


def read_needs(grid: Grid, cell: Cell) -> list[PartitionRef]:
    """Return what passages are made of: ranking, index and headings; or the documents; or no artifact."""
    study = grid.studies[cell.study]
    generator = study.generators[cell.generator]
    if generator.reads == "evidence":
        return [PartitionRef("documents", source) for source in study.corpus.sources]
    if generator.reads != "ranking":
        return []
    key = grid.index_key(cell)
    # Only a model is told of headings: quoted sentences do not depend on them.
    headings = [PartitionRef("chunks", key.rpartition(".")[0])] if generator.chat else []
    return [PartitionRef("rankings", cell.ranking), PartitionRef("indexes", key), *headings]


def read_passages(
    grid: Grid, cell: Cell, inputs: Sequence[Artifact], questions: pl.DataFrame, work: BuildContext
) -> Passages:
    """Return what the generator of a cell reads for each of its questions.

    inputs: artifacts of `read_needs`, and others
    questions: `schemas.QUESTIONS`
    """
    generator = grid.studies[cell.study].generators[cell.generator]
    rows = questions.iter_rows(named=True)
    if generator.reads == "nothing":
        return {row["question_id"]: [] for row in rows}
    if generator.reads == "evidence":
        documents = _documents([one for one in inputs if one.stage == "documents"], questions, work)
        return {row["question_id"]: evidence_passages(row, documents)[: generator.passages] for row in rows}
    by_stage = {one.stage: one for one in inputs}
    return _ranked(by_stage["rankings"], by_stage["indexes"], by_stage.get("chunks"), generator, work)


def headings_of(chunks: Artifact, work: BuildContext, chunk_ids: Sequence[str] | None = None) -> Headings:
    """Return the headings above chunks; above all of them unless some are named."""
    path = work.store.folder("chunks", chunks.identity) / "chunks.parquet"
    found = read_parquet(path, ["chunk_id", "heading_path"])
    if chunk_ids is not None:
        found = found.filter(pl.col("chunk_id").is_in(chunk_ids))
    return {chunk: tuple(path or ()) for chunk, path in found.iter_rows()}


def _ranked(
    ranking: Artifact, index: Artifact, chunks: Artifact | None, generator: Generator, work: BuildContext
) -> Passages:
    """Return the first passages of each question, best first; the one that a budget ends in as a whole."""
    folder = work.store.folder("rankings", ranking.identity)
    hits = read_parquet(folder / "hits.parquet").filter(pl.col("rank") <= generator.passages)
    hits = hits.sort("question_id", "rank")
    if generator.context_tokens is not None:
        length = pl.col("end") - pl.col("start")
        before = (length.cum_sum() - length).over("question_id")
        hits = hits.filter(before < generator.context_tokens * CHARACTERS_A_TOKEN)
    ranked = read_parquet(folder / "ranked.parquet").filter(pl.col("status") == Status.OK)
    headings = headings_of(chunks, work, hits["chunk_id"].unique().to_list()) if chunks else {}
    opened = work.resource(RunResources).index(index)
    found: Passages = {question: [] for question in ranked["question_id"]}
    columns = ("question_id", "chunk_id", "start", "end", "score")
    for question, chunk_id, start, end, score in hits.select(columns).iter_rows():
        found[question].append(passage_of(opened, chunk_id, start, end, score, headings))
    return found


def _documents(
    artifacts: list[Artifact], questions: pl.DataFrame, work: BuildContext
) -> Mapping[str, Mapping[str, Any]]:
    wanted = questions["evidence"].explode().struct.field("doc_id").drop_nulls().unique().to_list()
    rows = corpus_documents(artifacts, work).filter(pl.col("doc_id").is_in(wanted))
    return {row["doc_id"]: row for row in rows.iter_rows(named=True)}
