"""Counts failed rows by cell, metric, status and reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from rag_assay.evals.reporting import limits
from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.display import format_counts, truncate
from rag_assay.evals.rubrics.human_rating_metrics import UNRATED, is_unrated

ANSWERING = "answer"


@dataclass(frozen=True)
class Failure:
    """How often one thing went wrong in one cell, in each of the metrics; `answer` is the answer itself."""

    cell: str
    metrics: tuple[str, ...]
    status: str
    reason: str | None
    rows: int


@dataclass(frozen=True)
class Failures:
    """The most frequent failures, the count of the rows in all, and of the kinds that are not shown.

    unrated: scores that wait for a human rating: no failures
    """

    shown: tuple[Failure, ...]
    kinds_left_out: int
    rows: int
    by_status: Mapping[str, int]
    unrated: int


def failures(data: ReportData) -> Failures:
    """Count the scores and answers whose status is not `ok`; human ratings that are not given yet apart."""
    columns = ["cell", "metric", "status", "reason"]
    answers = data.answers.with_columns(metric=pl.lit(ANSWERING)).select(columns)
    bad = pl.concat([answers, data.scores.select(columns)]).filter(pl.col("status") != "ok")
    unrated = bad.filter(is_unrated()).height
    bad = bad.filter(~is_unrated())
    titles = {metric.name: metric.title for metric in data.metrics}
    counts = bad.group_by(columns).agg(rows=pl.len()).with_columns(pl.col("metric").replace(titles))
    # One timeout takes all metrics of its answer with it: what failed alike shares a row.
    alike = ["cell", "status", "reason", "rows"]
    kinds = counts.group_by(alike).agg(metrics=pl.col("metric").sort())
    kinds = kinds.sort("rows", "cell", "status", "reason", descending=[True, False, False, False])
    shown = tuple(
        Failure(
            row["cell"],
            tuple(row["metrics"]),
            row["status"],
            truncate(row["reason"], limits.REASON_CHARACTERS) or None,
            row["rows"],
        )
        for row in kinds.head(limits.FAILURES).iter_rows(named=True)
    )
    by_status = dict(bad.group_by("status").len().sort("status").iter_rows())
    return Failures(shown, kinds.height - len(shown), bad.height, by_status, unrated)


def reasons_missing(data: ReportData) -> Mapping[tuple[str, str], str]:
    """Return (cell, metric) -> why values are missing there, such as "12 × error, 1 × timeout"."""
    counts: dict[tuple[str, str], dict[str, int]] = {}
    for cell, metric, why, rows in _missing(data.scores, "cell", "metric").iter_rows():
        counts.setdefault((cell, metric), {})[why] = rows
    return {place: format_counts(reasons) for place, reasons in counts.items()}


def missing_values(scores: pl.DataFrame) -> dict[str, int]:
    """Return how many of the scores have no value, by status, or as not rated yet."""
    return dict(_missing(scores).iter_rows())


def _missing(scores: pl.DataFrame, *of: str) -> pl.DataFrame:
    why = pl.when(is_unrated()).then(pl.lit(UNRATED)).otherwise("status").alias("why")
    return scores.filter(pl.col("status") != "ok").group_by(*of, why).len()
