"""What the stages of entailment judges take: calls, tokens and time."""

from __future__ import annotations

import polars as pl

from rag_assay.evals.judging.entailment.pairs import SPENT
from rag_assay.evals.reporting import limits
from rag_assay.evals.reporting.charts.bars import COUNT, BarTable, BarValue, ColumnHeading, column, rows_of
from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.display import count, percent
from rag_assay.evals.reporting.figures.captions import left_out

COLUMNS = ("calls", "seconds", "read", "written")
STAGE = "stage"  # what a statement is of that says what a stage took


def stages_figure(data: ReportData) -> BarTable | None:
    """Return calls, seconds and tokens of each judge and stage; None where no judge works in stages.

    What several metrics share is paid by the first of them, and counted there.
    """
    found = _spent(data)
    if found is None or not found.height:
        return None
    shown = found.head(limits.STAGE_ROWS)
    several_judges = shown["judge"].n_unique() > 1
    names = [
        f"{judge} · {stage}" if several_judges else stage
        for judge, stage in shown.select("judge", "stage").rows()
    ]
    columns = [
        column(ColumnHeading(title, unit, "", note), [BarValue(float(one)) for one in shown[name]])
        for title, name, unit, note in (
            ("Calls", "calls", COUNT, ""),
            ("Time", "seconds", "s", "sum over calls, s"),
            ("Tokens read", "read", COUNT, "sum"),
            ("Tokens written", "written", COUNT, "sum"),
        )
    ]
    seconds = shown["seconds"].sum()
    slowest = shown.sort("seconds", descending=True).row(0, named=True)
    share = percent(slowest["seconds"] / seconds) if seconds else "–"
    return BarTable(
        "chart-stages",
        "What the stages of judging take",
        f"Of {count(int(shown['calls'].sum()))} calls, {slowest['stage']} of {slowest['judge']} takes "
        f"{share} of the time. Calls run side by side: the sum of their seconds is more than a clock would "
        "show. What the cache gave counts as when it was paid.",
        "Stage",
        tuple(head for head, _ in columns),
        rows_of(names, columns),
        left_out("they take less", stage=found.height - shown.height),
    )


def _spent(data: ReportData) -> pl.DataFrame | None:
    """Return calls, seconds, tokens read and written of each judge and stage, in the order of the stages.

    What a judge that works in stages asks beside them (whether an answer refuses) stands below, by metric.
    """
    if data.judgements is None or not data.judgements.height:
        return None
    in_stages = pl.col("statements").list.eval(pl.element().struct.field("of") == STAGE).list.any()
    marked = data.judgements.with_columns(_staged=in_stages.fill_null(value=False))
    parts = {
        name: pl.col("said").str.extract(SPENT, at).cast(pl.Float64).fill_null(0.0)
        for at, name in enumerate(COLUMNS, 1)
    }
    stages = (
        marked.filter("_staged")
        .select("judge", "statements")
        .explode("statements")
        .select("judge", pl.col("statements").struct.unnest())
        .filter(pl.col("of") == STAGE)
        .select("judge", stage="text", said="reason")
        .with_columns(**parts)
    )
    beside = marked.filter(~pl.col("_staged") & pl.col("judge").is_in(stages["judge"].unique().to_list()))
    others = beside.select(
        "judge",
        stage="metric",
        calls="calls",
        seconds="seconds",
        read="prompt_tokens",
        written="completion_tokens",
    ).with_columns(pl.col(*COLUMNS).cast(pl.Float64).fill_null(0.0))
    return (
        pl.concat([stages.drop("said"), others])
        .group_by("judge", "stage", maintain_order=True)
        .agg(pl.col(*COLUMNS).sum())
        .filter(pl.col("calls") > 0)
        .sort("judge", maintain_order=True)
    )
