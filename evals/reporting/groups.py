"""The primary metric by question type or question set, for the best few cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.entries import RankedResult


@dataclass(frozen=True)
class GroupMean:
    """The mean over the questions of one group that have a value; n is how many the metric applies to."""

    value: float | None
    with_value: int
    n: int


@dataclass(frozen=True)
class Groups:
    """One row a group, one column an entry of the leaderboard."""

    column: str
    names: tuple[str, ...]
    questions: Mapping[str, int]
    entries: tuple[RankedResult, ...]
    means: Mapping[tuple[str, str], GroupMean]


def group_of(column: str) -> pl.Expr:
    """Return the group of a question: that it is unanswerable, or a follow-up, goes before its type."""
    plain = pl.col(column).fill_null("(none)")
    if column != "type":
        return plain
    follows = pl.col("conversation").list.len() > 0
    return (
        pl.when(~pl.col("answerable"))
        .then(pl.lit("unanswerable"))
        .when(follows)
        .then(pl.lit("follow_up"))
        .otherwise(plain)
    )


def groups(data: ReportData, column: str, best: Sequence[RankedResult]) -> Groups:
    """Average the primary metric by ``column`` of the questions (`type` or `question_set`)."""
    kinds = data.questions.select("question_id", group_of(column).alias("group"))
    sizes = dict(kinds.group_by("group").len().iter_rows())
    cells = [entry.cells[0] for entry in best]
    scored = data.values.filter((pl.col("metric") == data.primary.name) & pl.col("cell").is_in(cells))
    good = pl.col("value")
    rows = (
        scored.join(kinds, on="question_id")
        .group_by("group", "cell")
        .agg(mean=good.mean(), with_value=good.is_not_null().sum(), n=pl.len())
    )
    return Groups(
        column,
        tuple(sorted(sizes, key=lambda name: (-sizes[name], name))),
        sizes,
        tuple(best),
        {
            (row["group"], row["cell"]): GroupMean(row["mean"], row["with_value"], row["n"])
            for row in rows.iter_rows(named=True)
        },
    )
