"""Reads rankings as curves of context length and what of the gold it holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import polars as pl

from rag_assay.evals.metrics.context_curve import CHARACTERS_A_TOKEN, context_curve
from rag_assay.evals.metrics.contract import Gold
from rag_assay.evals.question_sets.evidence import gold_of
from rag_assay.evals.study.grid import Grid
from rag_assay.warehouse.schemas import Schema
from rag_assay.warehouse.spans import Span

if TYPE_CHECKING:
    import duckdb

BUDGETS = (500, 1_000, 2_000, 4_000)  # tokens of context
DEPTHS = (1, 2, 3, 5, 10)  # passages
CURVES: Schema = {
    "cell": pl.String,
    "question_id": pl.String,
    **{f"at_{tokens}": pl.Float64 for tokens in BUDGETS},  # share of the gold in so many tokens
    **{f"value_{depth}": pl.Float64 for depth in DEPTHS},  # … in so many passages
    **{f"characters_{depth}": pl.Float64 for depth in DEPTHS},  # and how long they are
}


def context_curves(
    connection: duckdb.DuckDBPyConnection, grid: Grid, cells: Sequence[str], questions: pl.DataFrame
) -> pl.DataFrame:
    """Return a row a ranking (by the first of its cells) and question with gold (CURVES).

    Questions whose ranking failed are left out; one without any hit has nothing.
    """
    first: dict[str, str] = {}
    for key in sorted(cell for cell in cells if cell in grid.cells and grid.cells[cell].reads_ranking):
        first.setdefault(grid.cells[key].ranking, key)
    golds = {row["question_id"]: gold_of(row) for row in questions.iter_rows(named=True) if row["evidence"]}
    return curves_of(connection, first, golds)


def curves_of(
    connection: duckdb.DuckDBPyConnection, first: Mapping[str, str], golds: Mapping[str, Gold]
) -> pl.DataFrame:
    """Return the curves (CURVES) of rankings: only as many hits are read as the deepest look takes.

    first: ranking -> the cell that stands for it
    golds: of the questions that have any, by id
    """
    ranked = connection.execute(
        "SELECT p.key, r.question_id FROM ranked r JOIN pointers p ON p.stage = 'rankings' "
        "AND p.artifact_id = r.artifact_id WHERE r.status = 'ok' AND list_contains(?, p.key) ORDER BY ALL",
        [list(first)],
    ).fetchall()
    found: dict[tuple[str, str], list[Span]] = {(ranking, question): [] for ranking, question in ranked}
    longest = max(BUDGETS) * CHARACTERS_A_TOKEN
    rows = connection.execute(_HITS, [list(first), list(golds), max(DEPTHS), longest])
    for pair, hits in groupby(rows.fetchall(), key=lambda row: (row[0], row[1])):
        if pair in found:
            found[pair] = [Span(*hit[2:]) for hit in hits]
    curves = [
        _row(first[ranking], question, golds[question], hits)
        for (ranking, question), hits in found.items()
        if question in golds
    ]
    return pl.DataFrame(curves, schema=CURVES, orient="row")


_HITS = """
SELECT ranking, question_id, doc_id, "start", "end" FROM (
  SELECT *, sum("end" - "start") OVER (
    PARTITION BY ranking, question_id ORDER BY rank ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
  ) AS before
  FROM current_hits WHERE list_contains(?, ranking) AND list_contains(?, question_id)
) WHERE rank <= ? OR before < ? ORDER BY ranking, question_id, rank
"""


def _row(cell: str, question: str, gold: Any, hits: Sequence[Span]) -> tuple[Any, ...]:
    curve = context_curve(gold, hits)
    depths = [min(depth, len(hits)) - 1 for depth in DEPTHS]
    return (
        cell,
        question,
        *curve.at_each(BUDGETS),
        *(curve.values[at] if hits else 0.0 for at in depths),
        *(float(curve.characters[at]) if hits else 0.0 for at in depths),
    )
