"""What several stages of a study take in: its questions, those of a cell, and what a run may spend."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import polars as pl

from rag_assay.assets.engine.stage import DUCKDB, BuildContext, Stage
from rag_assay.evals.study.cells import Cell
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.artifacts import Artifact, ArtifactStore
from rag_assay.warehouse.inference.budget import Budget
from rag_assay.warehouse.parquet import read_parquet


class GridStage(Stage):
    """A stage whose partitions are those of a grid of studies."""

    group: ClassVar[str] = "grid"
    kinds: ClassVar[frozenset[str]] = frozenset({"python", "duckdb", "parquet"})

    def __init__(self, grid: Grid) -> None:
        self.grid = grid

    def pool(self) -> str:
        return DUCKDB


def budget_of(study: Study, work: BuildContext) -> Budget:
    return work.budgets.of(study.whole, study.budget.caps if study.budget else None)


def progress_of(cell: Cell, work: BuildContext) -> Callable[[str, int, int], None]:
    where = f" ({cell.chunking}, {cell.retriever})" if cell.reads_ranking else ""
    return lambda label, done, of: work.progress(f"{label}{where}", done, of)


def read_rows(artifact: Artifact, store: ArtifactStore, columns: list[str] | None = None) -> pl.DataFrame:
    """Read the table of an artifact that has the name of its stage."""
    folder = store.folder(artifact.stage, artifact.identity)
    return read_parquet(folder / f"{artifact.stage}.parquet", columns)


def read_questions(artifacts: list[Artifact], work: BuildContext) -> pl.DataFrame:
    return pl.concat(read_rows(one, work.store) for one in artifacts if one.stage == "questions")


def sampled_questions(study: Study, cell: Cell, questions: pl.DataFrame) -> pl.DataFrame:
    chosen = study.sampled(questions["question_id"].to_list(), cell.sample)
    return questions.filter(questions["question_id"].is_in(chosen))
