"""Builds the passages that generators and judges read: from hits and an index, or from reference passages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from rag_assay.assets.engine.stage import BuildContext, PartitionRef
from rag_assay.evals.generation.contract import Answer, Generator, Passage
from rag_assay.evals.metrics.token_budget import CHARACTERS_A_TOKEN
from rag_assay.evals.pipeline.stage_inputs import read_rows
from rag_assay.evals.spreadsheet_import.bundle import Place, SheetRow, cell_digest, cell_rows
from rag_assay.evals.study.cells import Cell
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.imported_study import ImportedStudy
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.artifacts import Artifact, ArtifactStore
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.parquet import frame, read_parquet, write_parquet
from rag_assay.warehouse.schemas import Schema, Status

if TYPE_CHECKING:
    from rag_assay.evals.retrieval.index import OpenIndex
    from rag_assay.evals.retrieval.query_runner import Hit

Passages = dict[str, list[Passage]]
"""Question id -> what is read for it; a question whose ranking failed is absent."""


def read_needs(grid: Grid, cell: Cell) -> list[PartitionRef]:
    study = grid.studies[cell.study]
    generator = study.generators[cell.generator]
    if generator.reads in {"evidence", "system"}:
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
    generator = grid.studies[cell.study].generators[cell.generator]
    rows = questions.to_dicts()
    if generator.reads in {"nothing", "system"}:
        return {row["question_id"]: [] for row in rows}
    if generator.reads == "evidence":
        documents = documents_of_evidence(inputs, rows, work)
        return {row["question_id"]: evidence_passages(row, documents)[: generator.passages] for row in rows}
    by_stage = {one.stage: one for one in inputs}
    return _ranked(by_stage["rankings"], by_stage["indexes"], by_stage.get("chunks"), generator, work)


def headings_of(chunks: Artifact, work: BuildContext, chunk_ids: Sequence[str] | None = None) -> Headings:
    found = read_rows(chunks, work.store, ["chunk_id", "heading_path"])
    if chunk_ids is not None:
        found = found.filter(pl.col("chunk_id").is_in(chunk_ids))
    return {chunk: tuple(path or ()) for chunk, path in found.iter_rows()}


def _ranked(
    ranking: Artifact, index: Artifact, chunks: Artifact | None, generator: Generator, work: BuildContext
) -> Passages:
    from rag_assay.evals.pipeline.run_resources import RunResources

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


def documents_of_evidence(
    inputs: Iterable[Artifact], questions: Iterable[Mapping[str, Any]], work: BuildContext
) -> Mapping[str, Mapping[str, Any]]:
    from rag_assay.assets.cleaning.corpus import corpus_documents

    wanted = {piece["doc_id"] for row in questions for piece in row["evidence"] if piece["doc_id"]}
    documents = corpus_documents([one for one in inputs if one.stage == "documents"], work)
    rows = documents.filter(pl.col("doc_id").is_in(list(wanted)))
    return {row["doc_id"]: row for row in rows.iter_rows(named=True)}


FILE = "contexts.parquet"
NOT_IN_SHEET = "the sheet has no row of it"
NO_ANSWER = "the sheet has no answer to it"
CONTEXTS: Schema = {
    "question_id": pl.String,
    "rank": pl.Int64,  # the best first: 1
    "text": pl.String,
    "doc_id": pl.String,  # NULL: it was found in no document, or not looked for
    "start": pl.Int64,  # of its place in the document
    "end": pl.Int64,
    "url": pl.String,
    "title": pl.String,
    "score": pl.Float64,
    "similarity": pl.Float64,  # of the text to that place, 1: word for word; NULL: the text is not there
}
"""The passages that a sheet or a system has beside its answers."""


class AnswerWithContexts(NamedTuple):
    """An answer of a sheet or a system, the passages beside it, and their similarity to a document."""

    answer: Answer
    passages: tuple[Passage, ...] = ()
    similarities: tuple[float | None, ...] = ()


def cell_recipes(study: Study, cell: Cell) -> dict[str, str]:
    sample = [cell.sample, study.seed] if cell.sample is not None else None
    return {
        f"rows.{cell.key}": cell_digest(_folder(study), _place(cell)),
        f"sample.{cell.study}.{cell.generator}": digest(sample),
    }


def imported_answers(study: Study, cell: Cell, question_ids: Sequence[str]) -> dict[str, AnswerWithContexts]:
    rows = {row.question_id: row for row in cell_rows(_folder(study), _place(cell))}
    asked = question_ids if cell.replicate == 1 else [one for one in question_ids if one in rows]
    return {one: _answer(rows.get(one)) for one in asked}


def _answer(row: SheetRow | None) -> AnswerWithContexts:
    if row is None:
        return AnswerWithContexts(Answer(Status.NOT_RUN, NOT_IN_SHEET))
    passages = tuple(passage(text, rank) for rank, text in enumerate(row.contexts, 1))
    if row.answer is None:
        return AnswerWithContexts(Answer(Status.NOT_RUN, NO_ANSWER), passages)
    if not row.answer.strip():
        nothing = Answer(Status.PARSE_FAILED, "the answer is empty", row.answer, raw=row.answer)
        return AnswerWithContexts(nothing, passages)
    return AnswerWithContexts(Answer(Status.OK, text=row.answer, raw=row.answer), passages)


def passage(text: str, rank: int) -> Passage:
    return Passage(text, chunk=f"context {rank}", end=len(text))


def write_contexts(found: dict[str, AnswerWithContexts], folder: Path) -> str:
    """Write the passages of a cell's answers; return the digest of their texts, and of the places of those
    that were found in a document: without a place, it is what it was before places were stored.
    """
    rows: list[dict[str, Any]] = [
        {
            **{name: getattr(one, name) for name in ("text", "start", "end", "url", "title", "score")},
            "question_id": question,
            "rank": rank,
            "doc_id": one.document or None,
            "similarity": dict(enumerate(answer.similarities, 1)).get(rank),
        }
        for question, answer in found.items()
        for rank, one in enumerate(answer.passages, 1)
    ]
    write_parquet(frame(rows, CONTEXTS), folder / FILE)
    told, placed = ("question_id", "rank", "text"), ("doc_id", "start", "end")
    return digest([[row[name] for name in (*told, *(placed if row["doc_id"] else ()))] for row in rows])


def contexts_of(store: ArtifactStore, answers: Artifact) -> dict[str, tuple[Passage, ...]]:
    rows = read_parquet(store.folder(answers.stage, answers.identity) / FILE)
    found: dict[str, list[Passage]] = {}
    for row in rows.sort("question_id", "rank").iter_rows(named=True):
        one = passage(row["text"], row["rank"])
        if row["doc_id"] is not None:
            placed = {name: row[name] for name in ("start", "end", "url", "title", "score")}
            one = replace(one, document=row["doc_id"], **placed)
        found.setdefault(row["question_id"], []).append(one)
    return {question: tuple(passages) for question, passages in found.items()}


def _folder(study: Study) -> Path:
    assert isinstance(study, ImportedStudy)  # noqa: S101 -- no other has imported cells
    return study.folder


def _place(cell: Cell) -> Place:
    return cell.chunking, cell.embedder, cell.retriever, cell.generator, cell.replicate


Headings = Mapping[str, Sequence[str]]
"""Chunk id -> the headings above it, outermost first."""


def passages_of(
    index: OpenIndex, hits: Iterable[Hit], headings: Headings | None = None
) -> tuple[Passage, ...]:
    return tuple(passage_of(index, one.chunk_id, one.start, one.end, one.score, headings) for one in hits)


def passage_of(
    index: OpenIndex, chunk_id: str, start: int, end: int, score: float, headings: Headings | None = None
) -> Passage:
    row = index.positions[chunk_id]
    doc_id, title, url, published_at = index.stored.at([row], "doc_id", "title", "url", "published_at")[0]
    return Passage(
        text=index.passage(doc_id, start, end),
        chunk=chunk_id,
        document=doc_id,
        title=title or None,
        url=url,
        date=published_at,
        section=tuple((headings or {}).get(chunk_id, ())),
        start=start,
        end=end,
        score=score,
    )


def evidence_passages(
    question: Mapping[str, Any], documents: Mapping[str, Mapping[str, Any]]
) -> list[Passage]:
    """Return the evidence as passages, best first: quotes in whole sentences, merged, or the document."""
    spans: dict[tuple[str, int, int], int] = {}
    for piece in question["evidence"]:
        document = documents.get(piece["doc_id"])
        if document is None or piece["reason"]:
            continue
        whole = piece["start"] is None
        start, end = (0, len(document["text"])) if whole else _widened(document["text"], piece)
        key = (piece["doc_id"], start, end)
        spans[key] = max(piece["grade"], spans.get(key, 0))
    ordered = sorted(_merged(spans), key=lambda one: -one[1])
    return [_of_document(documents[doc], start, end, grade) for (doc, start, end), grade in ordered]


def _widened(text: str, piece: Mapping[str, Any]) -> tuple[int, int]:
    from rag_assay.assets.chunking.sentence_splitter import sentence_places

    touched = [one for one in sentence_places(text) if one[0] < piece["end"] and one[1] > piece["start"]]
    starts, ends = (
        [piece["start"], *(start for start, _ in touched)],
        [piece["end"], *(e for _, e in touched)],
    )
    return min(starts), max(ends)


def _merged(spans: Mapping[tuple[str, int, int], int]) -> list[tuple[tuple[str, int, int], int]]:
    found: list[tuple[tuple[str, int, int], int]] = []
    for (doc, start, end), grade in spans.items():
        place = None
        for one in [one for one in found if one[0][0] == doc and one[0][1] < end and start < one[0][2]]:
            start, end, grade = min(start, one[0][1]), max(end, one[0][2]), max(grade, one[1])  # noqa: PLW2901
            place = found.index(one) if place is None else place
            found.remove(one)
        found.insert(len(found) if place is None else place, ((doc, start, end), grade))
    return found


def _of_document(document: Mapping[str, Any], start: int, end: int, grade: int) -> Passage:
    from rag_assay.assets.chunking.contract import Section
    from rag_assay.assets.chunking.sections import SectionTree

    sections = [Section(**one) for one in document["sections"] or ()]
    return Passage(
        text=document["text"][start:end],
        chunk=f"{document['doc_id']}:{start}-{end}",
        document=document["doc_id"],
        title=document["title"] or None,
        url=document["url"],
        date=document["published_at"],
        section=tuple(SectionTree(sections, len(document["text"])).headings(start)),
        start=start,
        end=end,
        score=float(grade),
    )
