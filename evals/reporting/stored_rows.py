"""Reads tables of DuckDB as the frames of a report, each with its schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from rag_assay.evals.reporting.limits import BIN_CHARACTERS, STATEMENTS
from rag_assay.warehouse.schemas import ANSWERS, JUDGEMENTS, LOSSES, QUESTIONS, SCORES, Schema

if TYPE_CHECKING:
    import duckdb

OF_CELL: Schema = {"cell": pl.String, "replicate": pl.Int64}
"""What rows of cells have beside their own schema."""


def select_rows(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: list[Any], schema: Schema
) -> pl.DataFrame:
    """Return what a query finds, in the columns of a schema."""
    rows = pl.DataFrame(connection.sql(sql, params=parameters).to_arrow_table())
    return rows.select([pl.col(name).cast(kind) for name, kind in schema.items()])


def stored_questions(connection: duckdb.DuckDBPyConnection, sets: list[str]) -> pl.DataFrame:
    """Return the questions of these sets as they are now (schemas.QUESTIONS)."""
    return select_rows(
        connection,
        "SELECT q.* EXCLUDE (artifact_id) FROM questions q JOIN pointers p ON p.stage = 'questions' "
        "AND p.artifact_id = q.artifact_id WHERE list_contains(?, p.key) ORDER BY p.key, q.question_id",
        [sets],
        QUESTIONS,
    )


def stored_scores(connection: duckdb.DuckDBPyConnection, cells: list[str]) -> pl.DataFrame:
    """Return the scores of these cells (schemas.SCORES with OF_CELL)."""
    return _of_cells(connection, "current_scores", cells, SCORES)


_SHORT_BINS = (  # whole, they are the context once more
    f" REPLACE ([{{'text': left(b.text, {BIN_CHARACTERS + 1}), 'chunk_ids': b.chunk_ids, 'status': b.status, "
    "'reason': b.reason, 'answer': b.answer} FOR b IN bins] AS bins)"
)


def stored_answers(connection: duckdb.DuckDBPyConnection, cells: list[str]) -> pl.DataFrame:
    """Return the answers of these cells (schemas.ANSWERS with OF_CELL), of their bins the first words."""
    return _of_cells(connection, "current_answers", cells, ANSWERS, _SHORT_BINS)


def _of_cells(
    connection: duckdb.DuckDBPyConnection, table: str, cells: list[str], schema: Schema, changes: str = ""
) -> pl.DataFrame:
    """Return the rows of these cells, with `cell`.

    changes: to columns, in SQL
    """
    sql = f"SELECT *{changes} FROM {table} WHERE list_contains(?, cell)"  # noqa: S608 -- our own names
    return select_rows(connection, sql, [cells], {**schema, **OF_CELL})


def stored_judgements(
    connection: duckdb.DuckDBPyConnection,
    judges: list[str],
    cells: list[str],
    open_metrics: frozenset[str],
) -> pl.DataFrame:
    """Return what judges said, of each judgement the first statements.

    open_metrics: `JUDGE.METRIC` of those that nobody has calibrated
    """
    sql = (
        f"SELECT * REPLACE (NULL AS raw, list_slice(statements, 1, {STATEMENTS + 1}) AS statements) "  # noqa: S608
        "FROM current_judgements WHERE list_contains(?, cell) AND list_contains(?, judge) "
        "ORDER BY cell, cell_replicate, question_id, judge, metric, replicate"
    )
    schema = {**JUDGEMENTS, "cell": pl.String, "cell_replicate": pl.Int64, "judge": pl.String}
    rows = select_rows(connection, sql, [cells, judges], schema)
    name = pl.concat_str("judge", "metric", separator=".")
    return rows.with_columns(name.is_in(list(open_metrics)).alias("uncalibrated"))


def stored_losses(connection: duckdb.DuckDBPyConnection, first: dict[str, str]) -> pl.DataFrame:
    """Return where questions were lost (schemas.LOSSES, with `cell`).

    first: ranking -> the cell that stands for it
    """
    rows = select_rows(
        connection,
        "SELECT * FROM current_losses WHERE list_contains(?, ranking) ORDER BY ALL",
        [list(first)],
        {**LOSSES, "ranking": pl.String},
    )
    return rows.with_columns(cell=pl.col("ranking").replace(first)).drop("ranking")
