"""The answers of an imported cell: rows of a sheet, and the passages that the sheet has beside them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl

from rag_assay.evals.generation.contract import Answer, Passage
from rag_assay.evals.spreadsheet_import.bundle import Place, SheetRow, cell_digest, cell_rows
from rag_assay.evals.study.cells import Cell
from rag_assay.evals.study.imported_study import ImportedStudy
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.artifacts import Artifact, ArtifactStore
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.parquet import frame, read_parquet, write_parquet
from rag_assay.warehouse.schemas import Schema, Status

FILE = "contexts.parquet"
NOT_IN_SHEET = "the sheet has no row of it"
NO_ANSWER = "the sheet has no answer to it"
CONTEXTS: Schema = {"question_id": pl.String, "rank": pl.Int64, "text": pl.String}
"""The passages that a sheet has beside its answers, the best first: rank 1."""


class ImportedAnswer(NamedTuple):
    """An answer of a sheet to a question, and the passages beside it."""

    answer: Answer
    passages: tuple[Passage, ...] = ()


def cell_recipes(study: Study, cell: Cell) -> dict[str, str]:
    sample = [cell.sample, study.seed] if cell.sample is not None else None
    return {
        f"rows.{cell.key}": cell_digest(_folder(study), _place(cell)),
        f"sample.{cell.study}.{cell.generator}": digest(sample),
    }


def imported_answers(study: Study, cell: Cell, question_ids: Sequence[str]) -> dict[str, ImportedAnswer]:
    """Return the answers of a cell by question id.

    A question without a row was not run. Of a further replicate it is left out: it was asked, once less.
    """
    rows = {row.question_id: row for row in cell_rows(_folder(study), _place(cell))}
    asked = question_ids if cell.replicate == 1 else [one for one in question_ids if one in rows]
    return {one: _answer(rows.get(one)) for one in asked}


def _answer(row: SheetRow | None) -> ImportedAnswer:
    if row is None:
        return ImportedAnswer(Answer(Status.NOT_RUN, NOT_IN_SHEET))
    passages = tuple(passage(text, rank) for rank, text in enumerate(row.contexts, 1))
    if row.answer is None:
        return ImportedAnswer(Answer(Status.NOT_RUN, NO_ANSWER), passages)
    if not row.answer.strip():
        nothing = Answer(Status.PARSE_FAILED, "the answer is empty", row.answer, raw=row.answer)
        return ImportedAnswer(nothing, passages)
    return ImportedAnswer(Answer(Status.OK, text=row.answer, raw=row.answer), passages)


def passage(text: str, rank: int) -> Passage:
    """Return a passage of a sheet, of which nothing is known but its text and its rank from 1."""
    return Passage(text, chunk=f"context {rank}", end=len(text))


def write_contexts(found: dict[str, ImportedAnswer], folder: Path) -> str:
    """Write the passages beside the answers of a cell; return the digest of their texts."""
    rows = [
        {"question_id": question, "rank": rank, "text": one.text}
        for question, answer in found.items()
        for rank, one in enumerate(answer.passages, 1)
    ]
    write_parquet(frame(rows, CONTEXTS), folder / FILE)
    return digest([list(row.values()) for row in rows])


def contexts_of(store: ArtifactStore, answers: Artifact) -> dict[str, tuple[Passage, ...]]:
    """Return the passages beside the stored answers of a cell by question id, the best first."""
    rows = read_parquet(store.folder(answers.stage, answers.identity) / FILE)
    found: dict[str, list[Passage]] = {}
    for question, rank, text in rows.sort("question_id", "rank").select([*CONTEXTS]).iter_rows():
        found.setdefault(question, []).append(passage(text, rank))
    return {question: tuple(passages) for question, passages in found.items()}


def _folder(study: Study) -> Path:
    assert isinstance(study, ImportedStudy)  # noqa: S101 -- no other has imported cells
    return study.folder


def _place(cell: Cell) -> Place:
    return cell.chunking, cell.embedder, cell.retriever, cell.generator, cell.replicate
