"""Reads from DuckDB what the cells of a study cost."""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from rag_assay.evals.study.study import Study
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import ANSWERS, SCORES, Schema
from rag_assay.warehouse.study_records import pinned_artifacts
from rag_assay.warehouse.tables import on_whole_database

_OF_SCORES = ("question_id", "metric", "status", "value")
_OF_ANSWERS = ("usd", "prompt_tokens", "completion_tokens")


@on_whole_database
def running_rows(study: Study, home: Home, seconds: Collection[str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return what `evals.metrics.running_costs` reads: scores of some metrics, and answers without texts.

    seconds: the metrics
    """
    cells = [cell.name for cell in study.cells()]
    of_scores: Schema = {
        "cell": pl.String,
        "replicate": pl.Int64,
        **{name: SCORES[name] for name in _OF_SCORES},
    }
    of_answers: Schema = {"cell": pl.String, **{name: ANSWERS[name] for name in _OF_ANSWERS}}
    with pinned_artifacts(home, study.study).connect() as connection:
        scores = connection.sql(
            f"SELECT {', '.join(of_scores)} FROM current_scores "  # noqa: S608 -- our own names
            "WHERE list_contains(?, cell) AND list_contains(?, metric)",
            params=[cells, list(seconds)],
        ).to_arrow_table()
        answers = connection.sql(
            f"SELECT {', '.join(of_answers)} FROM current_answers WHERE list_contains(?, cell)",  # noqa: S608
            params=[cells],
        ).to_arrow_table()
    return _typed(pl.DataFrame(scores), of_scores), _typed(pl.DataFrame(answers), of_answers)


def _typed(rows: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    return rows.select([pl.col(name).cast(kind) for name, kind in schema.items()])
