"""What several stages of a study take in: its questions, those of a cell, and what a run may spend."""

from __future__ import annotations

import polars as pl

from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.study.cells import Cell
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.artifacts import Artifact
from rag_assay.warehouse.inference.budget import Budget
from rag_assay.warehouse.parquet import conform_rows, read_parquet
from rag_assay.warehouse.schemas import QUESTIONS


def budget_of(study: Study, work: BuildContext) -> Budget:
    return work.budgets.of(study.whole, study.budget.caps if study.budget else None)


def read_questions(artifacts: list[Artifact], work: BuildContext) -> pl.DataFrame:
    frames = [
        conform_rows(read_parquet(work.store.folder(a.stage, a.identity) / "questions.parquet"), QUESTIONS)
        for a in artifacts
        if a.stage == "questions"
    ]
    return pl.concat(frames)


def sampled_questions(study: Study, cell: Cell, questions: pl.DataFrame) -> pl.DataFrame:
    chosen = study.sampled(questions["question_id"].to_list(), cell.sample)
    return questions.filter(questions["question_id"].is_in(chosen))
