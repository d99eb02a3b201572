"""What several stages of a study take in: its questions, those of a cell, and what a run may spend."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import polars as pl

from rag_assay.assets.engine.stage import DUCKDB, BuildContext, Stage
from rag_assay.evals.study.cells import Cell
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.artifacts import Artifact
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


def read_questions(artifacts: list[Artifact], work: BuildContext) -> pl.DataFrame:
    sets = [one for one in artifacts if one.stage == "questions"]
    return pl.concat(read_parquet(work.store.folder(a.stage, a.identity) / "questions.parquet") for a in sets)


def sampled_questions(study: Study, cell: Cell, questions: pl.DataFrame) -> pl.DataFrame:
    chosen = study.sampled(questions["question_id"].to_list(), cell.sample)
    return questions.filter(questions["question_id"].is_in(chosen))
