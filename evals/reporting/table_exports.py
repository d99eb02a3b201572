"""The leaderboard as one table for other programs, and as CSV in which a spreadsheet finds no formula."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import polars as pl

from rag_assay.evals.human.spreadsheets.formula_escaping import CSV
from rag_assay.evals.reporting.costs import running
from rag_assay.evals.reporting.data import ReportData
from rag_assay.warehouse.atomic_write import atomic_write
from rag_assay.warehouse.schemas import LEADERBOARD

COSTS = {"usd_per_1000": pl.Float64, "seconds_p50": pl.Float64, "seconds_p95": pl.Float64}


def export_table(data: ReportData) -> pl.DataFrame:
    """Return the leaderboard, a row a cell, metric and subset, with costs and with what is recommended."""
    taken, costs = data.verdict.recommended, running(data)
    found = [(cell, one.usd, one.p50, one.p95) for cell, one in costs.items()]
    priced = pl.DataFrame(found, schema={"cell": pl.String, **COSTS}, orient="row")
    is_taken = (pl.col("cell") == (taken.cell if taken else "")) & (pl.col("subset") == data.verdict.subset)
    rows = data.leaderboard.select(list(LEADERBOARD)).join(
        priced, on="cell", how="left", maintain_order="left"
    )
    return rows.with_columns(recommended=is_taken)


def csv_text(table: pl.DataFrame) -> str:
    """Return a table as CSV; a text that a spreadsheet might run as a formula has an apostrophe in front."""
    into = io.StringIO(newline="")
    writer = csv.writer(into, lineterminator="\r\n")
    writer.writerow(table.columns)
    writer.writerows([_cell(value) for value in row] for row in table.iter_rows())
    return into.getvalue()


def write_csv(table: pl.DataFrame, path: Path) -> Path:
    """Write a table as CSV, with the mark by which spreadsheets know UTF-8; return its path."""
    with atomic_write(path) as temporary:
        temporary.write_text(csv_text(table), encoding="utf-8-sig", newline="")
    return path


def _cell(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return CSV.written(value) if isinstance(value, str) else value
