"""What people said of a study's answers, as it is stored."""

from __future__ import annotations

from typing import Any

import polars as pl

from rag_assay.evals.annotations import AGREED, COUNTED, FILE
from rag_assay.evals.reporting.rating_scores import AXES, CELLS, ScoresOfPeople
from rag_assay.evals.spreadsheet_import.bundle import axis_words
from rag_assay.evals.study.cells import UNREAD, Cell
from rag_assay.evals.study.imported_study import ImportedStudy
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.annotation_schemas import AGREEMENT, ANNOTATIONS, HUMAN_SCORES
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.parquet import conform_rows, frame, read_parquet
from rag_assay.warehouse.schemas import Schema


def stored_people(study: Study, store: ArtifactStore) -> ScoresOfPeople | None:
    """Return what people scored of a study; None where it has no rubrics."""
    if not study.rubrics:
        return None
    artifact = store.current("annotations", study.study)

    def read(file: str, schema: Schema) -> pl.DataFrame:
        path = artifact and store.folder("annotations", artifact.identity) / file
        return conform_rows(read_parquet(path), schema) if path and path.exists() else frame([], schema)

    return ScoresOfPeople(
        study.rubrics,
        frame([_of(cell) for cell in study.runs()], CELLS),
        read(FILE, ANNOTATIONS),
        read(COUNTED, HUMAN_SCORES),
        read(AGREED, AGREEMENT),
        axis_words(study.folder) if isinstance(study, ImportedStudy) else {},
        f"assay ratings annotate {study.whole}",
    )


def _of(cell: Cell) -> dict[str, Any]:
    """Return a row of CELLS; `-` of a sheet is a name like any other: another sheet may say more."""
    parts = {axis: getattr(cell, axis) for axis in AXES}
    read = {axis: None if part == UNREAD and not cell.imported else part for axis, part in parts.items()}
    return {"key": cell.key, "cell": cell.name, "replicate": cell.replicate, **read}
