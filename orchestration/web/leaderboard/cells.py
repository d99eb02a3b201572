"""A study's cells, and cells of several studies beside each other where they may stand there."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import streamlit as st

from rag_assay.evals.reporting.data import MetricInfo
from rag_assay.evals.reporting.display import count, quantity, several, truncate
from rag_assay.evals.reporting.live_boards import LiveBoard, StudyNow, beside_each_other
from rag_assay.evals.reporting.standings import Subset, subsets, varying_axes
from rag_assay.evals.study.cells import AXES
from rag_assay.orchestration.web import charts
from rag_assay.orchestration.web.board import chart, figure_columns, nothing, section, table
from rag_assay.orchestration.web.chat.answer_html import label
from rag_assay.orchestration.web.leaderboard.rows import cell_rows, chosen_axes

_BARS = 30  # cells that a chart shows
_NAME = 60  # characters of a cell's name beside its interval


def show_cells(one: StudyNow) -> None:
    """Show the leaderboard of a study: what it comes to, its cells by a metric of choice, the report."""
    board = one.board
    if board is None:
        return
    about = "What the study's report says, and every cell by a metric of choice."
    with section("cells", one.name, about):
        decision, *why = board.data.verdict.sentences
        st.markdown(f"**{label(decision, 500)}**")
        st.markdown(label(" ".join(why), 1500))
        if board.data.part:
            st.warning(label(board.data.part, 400), icon=":material/content_cut:")
        with st.container(key="choices", horizontal=True):
            metric, subset = _metric(board), _subset(board)
        rows = _filtered(cell_rows(board, subset, metric, one.progress))
        _tell(metric, rows, subset.name)
        _draw(rows, metric, board)
        table(
            f"{one.name}-cells",
            f"Cells of {one.name}",
            rows,
            folded=False,
            columns=figure_columns(metric.heading),
        )
        _report(one)


def show_beside(studies: Sequence[StudyNow]) -> None:
    """Show the cells of several studies in one table, or why they cannot be."""
    about = (
        "Cells of several studies stand in one table only where the same questions were asked and the same "
        "metric measures. Intervals are each cell's own; no test compares cells of two studies."
    )
    with section("beside", "Studies beside each other", about):
        boards = [one.board for one in studies if one.board is not None]
        if len(boards) < 2:
            nothing("One study alone has a leaderboard to be shown.")
            return
        names = [one.name for one in studies]
        others = st.multiselect("Beside it", names[1:], default=names[1:], key="others")
        kept = [one for one in boards[1:] if one.data.study in others]
        metric = boards[0].data.primary
        beside, why = beside_each_other([boards[0], *kept], metric.name)
        for study, reason in why.items():
            st.markdown(label(f"{study} is left out: {reason}.", 400))
        if len(beside) > 1:
            rows = pl.concat([_of_study(one, metric) for one in beside])
            sign = metric.higher_is_better
            rows = rows.sort("value", descending=sign, nulls_last=True, maintain_order=True)
            columns = figure_columns(metric.heading)
            table("beside", "Studies beside each other", rows, folded=False, columns=columns)


def _of_study(board: LiveBoard, metric: MetricInfo) -> pl.DataFrame:
    rows = cell_rows(board, board.main, metric, None)
    kept = ("value", "low", "high", "coverage", "questions", "US$ for 1,000", "p50 s", "cell")
    return rows.select(pl.lit(board.data.study).alias("study"), *kept)


def _metric(board: LiveBoard) -> MetricInfo:
    titles = {one.name: one.title for one in board.data.metrics}
    name = st.selectbox("Metric", list(titles), format_func=lambda one: titles[one], key="metric", width=320)
    return next((one for one in board.data.metrics if one.name == name), board.data.primary)


def _subset(board: LiveBoard) -> Subset:
    found = subsets(board.data)
    if len(found) < 2:
        return board.main
    names = [one.name for one in found]
    name = st.selectbox("Questions", names, key="subset", width=320)
    return next((one for one in found if one.name == name), found[0])


def _filtered(rows: pl.DataFrame) -> pl.DataFrame:
    chosen: dict[str, list[str]] = {}
    with st.container(key="axes", horizontal=True):
        for axis in AXES:
            names = rows[axis].drop_nulls().unique().sort().to_list()
            if len(names) > 1:
                chosen[axis] = st.multiselect(axis, names, key=f"axis_{axis}", placeholder="all", width=250)
    return chosen_axes(rows, chosen)


def _tell(metric: MetricInfo, rows: pl.DataFrame, subset: str) -> None:
    n = rows["questions"].max()
    none = rows["value"].null_count()
    asked = "" if subset == "all" else f" ({subset})"
    missing = f" {several(none, 'cell')} without a value, which is not 0." if none else ""
    st.caption(
        label(
            f"{metric.explanation} {several(len(rows), 'cell')} on {count(int(n or 0))} questions{asked}; "  # type: ignore[arg-type]
            f"{'more' if metric.higher_is_better else 'less'} is better. Rank and tie group are those by the "
            f"study's first metric.{missing}",
            800,
        )
    )


def _draw(rows: pl.DataFrame, metric: MetricInfo, board: LiveBoard) -> None:
    there = rows.filter(pl.col("value").is_not_null()).head(_BARS)
    if there.is_empty():
        nothing(f"No cell has a value of {metric.title} here.")
        return
    axes = varying_axes(board.main.standings)
    names = [
        truncate(" · ".join(one[axis] for axis in axes if one[axis]) or one["cell"], _NAME)
        for one in there.iter_rows(named=True)
    ]
    if len({*names}) < len(names):
        names = [truncate(cell.partition(".")[2], _NAME) for cell in there["cell"]]
    first = there.row(0, named=True)
    value = quantity(first["value"], metric.unit)
    heard = f"A point with its interval a cell, the best first: {names[0]} has {value}."
    chart(charts.intervals(there.with_columns(pl.Series("name", names)), metric.heading), heard)
    if len(rows) > _BARS:
        st.caption(label(f"The chart has the first {_BARS}; the table has all.", 100))


def _report(one: StudyNow) -> None:
    """Offer the report that the last run wrote: a browser opens no file of this machine from a page."""
    path = one.report
    if path is None:
        st.caption("The study has no report file: a run writes it.")
        return
    st.caption("The report, as the last run wrote it; `assay report STUDY --open` opens it in the browser.")
    with st.container(key="report", horizontal=True, vertical_alignment="center"):
        st.code(str(path), language=None, width="content")
        st.download_button(
            "Report",
            path.read_bytes,
            path.name,
            "text/html",
            key="report_file",
            icon=":material/download:",
            on_click="ignore",
        )
