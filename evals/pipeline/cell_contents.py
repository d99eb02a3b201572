"""What a cell answered, and the passages of its answers as its generator was given them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import polars as pl

from rag_assay.assets.cleaning.corpus import corpus_documents
from rag_assay.assets.engine.stage import BuildContext, PartitionRef
from rag_assay.evals.generation.citations import without_markers
from rag_assay.evals.generation.contract import Passage
from rag_assay.evals.judging.contract import JudgeCase
from rag_assay.evals.pipeline.answer_inputs import headings_of
from rag_assay.evals.pipeline.imported_answers import contexts_of
from rag_assay.evals.pipeline.passages import Headings, evidence_passages, passage_of
from rag_assay.evals.pipeline.run_resources import RunResources
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.study.cells import NO_GENERATOR, Cell
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.artifacts import Artifact
from rag_assay.warehouse.parquet import conform_rows, read_parquet
from rag_assay.warehouse.schemas import ANSWERS, Status

FOUND = (
    5  # passages that are judged of a cell without a generator: as many as a generator reads, unless it says
)
Row = dict[str, Any]
Inputs = Mapping[PartitionRef, Artifact]


def answer_needs(cell: Cell) -> list[PartitionRef]:
    """Return the answers of a cell; none without a generator."""
    return [] if cell.generator == NO_GENERATOR else [PartitionRef("answers", cell.key)]


def passage_needs(grid: Grid, cell: Cell) -> list[PartitionRef]:
    """Return what the passages of a cell are made of, beside its answers and questions."""
    study = grid.studies[cell.study]
    if study.reads(cell.generator) == "evidence":
        return [PartitionRef("documents", source) for source in study.corpus.sources]
    if not cell.reads_ranking:
        return []
    key = grid.index_key(cell)
    return [
        PartitionRef("rankings", cell.ranking),
        PartitionRef("indexes", key),
        PartitionRef("chunks", key.rpartition(".")[0]),
    ]


def same_replicate(study: Study, other: Cell, cell: Cell) -> Cell:
    """Return the replicate of another cell that one is compared with: of the same number, or its last."""
    return other.replicates(study.times(other))[: cell.replicate][-1]


def case_of(question: Row, answer: Row | None, passages: tuple[Passage, ...], rival: str | None) -> JudgeCase:
    """Return a question as judges and people read it.

    question: a row of `schemas.QUESTIONS`; answer: of `read_answers`, None without a generator
    rival: the text of the answer that it is compared with
    """
    status = Status(answer["status"]) if answer else Status.OK
    failed = answer is not None and status not in {Status.OK, Status.REFUSED}
    return JudgeCase(
        question["question"],
        question["language"],
        answer["answer"] if answer and not failed else None,
        status,
        answer["reason"] if answer and failed else None,
        question["ground_truth"] or None,
        passages,
        question["question_id"],
        rival,
    )


def text_of(answer: Row | None) -> str | None:
    """Return the text of an answer that ended well, or of a refusal."""
    usable = answer is not None and answer["status"] in {Status.OK, Status.REFUSED}
    return answer["answer"] if answer and usable else None


def read_answers(
    study: Study, cell: Cell, inputs: Inputs, work: BuildContext, *, markers: bool = False
) -> dict[str, Row]:
    """Return the answers of a cell by question id.

    markers: with the markers of their citations
    """
    artifact = inputs.get(PartitionRef("answers", cell.key))
    if artifact is None:
        return {}
    rows = read_parquet(work.store.folder("answers", artifact.identity) / "answers.parquet")
    kept = ["question_id", "status", "reason", "answer", "chunk_ids", "cuts"]
    rows = conform_rows(rows.select(name for name in kept if name in rows.columns), ANSWERS)
    if study.generators[cell.generator].writes_markers and not markers:
        rows = rows.with_columns(pl.col("answer").map_elements(without_markers, pl.String))
    return {row["question_id"]: row for row in rows.iter_rows(named=True)}


# Passages --------------------------------------------------------------------------------------------------


def read_passages(
    grid: Grid,
    cell: Cell,
    inputs: Inputs,
    questions: list[Row],
    answers: Mapping[str, Row],
    work: BuildContext,
) -> dict[str, tuple[Passage, ...]]:
    """Return the passages of each question, those that its answer was made of, as far as they were given.

    A question whose ranking failed has none, and is left out.
    """
    reads = grid.studies[cell.study].reads(cell.generator)
    if reads == "nothing":
        return {row["question_id"]: () for row in questions}
    if reads == "evidence":
        return _evidence(inputs, questions, answers, work)
    if reads == "imported":
        of_sheet = contexts_of(work.store, inputs[PartitionRef("answers", cell.key)])
        return {row["question_id"]: of_sheet.get(row["question_id"], ()) for row in questions}
    index = work.resource(RunResources).index(inputs[PartitionRef("indexes", grid.index_key(cell))])
    chunks = inputs[PartitionRef("chunks", grid.index_key(cell).rpartition(".")[0])]
    spans = _spans(inputs[PartitionRef("rankings", cell.ranking)], work)
    named = {chunk for row in answers.values() for chunk in row["chunk_ids"] or ()}
    named |= {chunk for of_question in spans.values() for chunk in list(of_question)[:FOUND]}
    headings = headings_of(chunks, work, sorted(named))
    found = {}
    for question_id in (row["question_id"] for row in questions):
        if question_id in spans:
            hits, answer = spans[question_id], answers.get(question_id)
            ids = list(hits)[:FOUND] if answer is None else answer["chunk_ids"] or []
            delivered = [_delivered(one, hits, index, headings) for one in ids if one in index.positions]
            found[question_id] = _as_given(delivered, answer)
    return found


Spans = dict[str, tuple[int, int, float]]
"""Chunk id -> start, end and score of what was delivered for it, the best first."""


def _spans(ranking: Artifact, work: BuildContext) -> dict[str, Spans]:
    """Return the hits of each question whose ranking ended well."""
    folder = work.store.folder("rankings", ranking.identity)
    ended = read_parquet(folder / "ranked.parquet").filter(pl.col("status") == Status.OK)
    found: dict[str, Spans] = {question: {} for question in ended["question_id"]}
    hits = read_parquet(folder / "hits.parquet").sort("question_id", "rank")
    columns = ("question_id", "chunk_id", "start", "end", "score")
    for question, chunk, start, end, score in hits.select(columns).iter_rows():
        found.get(question, {}).setdefault(chunk, (start, end, score))
    return found


def _delivered(chunk: str, hits: Spans, index: OpenIndex, headings: Headings) -> Passage:
    """Return what was delivered for a chunk; of one that the generator itself has looked for, its context."""
    row = index.positions[chunk]
    context = (*index.spans.contexts[row].tolist(), 0.0)
    start, end, score = hits.get(chunk, context)
    return passage_of(index, chunk, start, end, score, headings)


def _evidence(
    inputs: Inputs, questions: list[Row], answers: Mapping[str, Row], work: BuildContext
) -> dict[str, tuple[Passage, ...]]:
    wanted = {piece["doc_id"] for row in questions for piece in row["evidence"] if piece["doc_id"]}
    documents = corpus_documents([one for need, one in inputs.items() if need.stage == "documents"], work)
    of_evidence = documents.filter(pl.col("doc_id").is_in(list(wanted)))
    by_id = {row["doc_id"]: row for row in of_evidence.iter_rows(named=True)}
    found = {}
    for row in questions:
        answer = answers.get(row["question_id"])
        known = {one.chunk: one for one in evidence_passages(row, by_id)}
        given = [known[one] for one in (answer["chunk_ids"] or [] if answer else known) if one in known]
        found[row["question_id"]] = _as_given(given, answer)
    return found


def _as_given(passages: list[Passage], answer: Row | None) -> tuple[Passage, ...]:
    """Return passages as the generator was given them: shortened, or left out, where there was no room."""
    kept = {one["chunk_id"]: one["kept"] for one in (answer.get("cuts") or () if answer else ())}
    texts = [(one, one.text[: kept.get(one.chunk, len(one.text))].rstrip()) for one in passages]
    return tuple(
        one if len(text) == len(one.text.rstrip()) else replace(one, text=text) for one, text in texts if text
    )
