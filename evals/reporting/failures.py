"""Counts failed rows by cell, metric, status and reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from evals.reporting import limits
from evals.reporting.data import ReportData
from evals.reporting.display import counted, trimmed

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
    """The most frequent failures, the count of the rows in all, and of the kinds that are not shown."""

    shown: tuple[Failure, ...]
    kinds_left_out: int
    rows: int
    by_status: Mapping[str, int]


def failures(data: ReportData) -> Failures:
    """Count the scores and answers whose status is not `ok`."""
    columns = ["cell", "metric", "status", "reason"]
    answers = data.answers.with_columns(metric=pl.lit(ANSWERING)).select(columns)
    bad = pl.concat([answers, data.scores.select(columns)]).filter(pl.col("status") != "ok")
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
            trimmed(row["reason"], limits.REASON_CHARACTERS) or None,
            row["rows"],
        )
        for row in kinds.head(limits.FAILURES).iter_rows(named=True)
    )
    by_status = dict(bad.group_by("status").len().sort("status").iter_rows())
    return Failures(shown, kinds.height - len(shown), bad.height, by_status)


def reasons_missing(data: ReportData) -> Mapping[tuple[str, str], str]:
    """Return (cell, metric) -> why values are missing there, such as "12 × error, 1 × timeout"."""
    bad = data.scores.filter(pl.col("status") != "ok").group_by("cell", "metric", "status").len()
    counts: dict[tuple[str, str], dict[str, int]] = {}
    for cell, metric, status, rows in bad.iter_rows():
        counts.setdefault((cell, metric), {})[status] = rows
    return {place: counted(statuses) for place, statuses in counts.items()}
