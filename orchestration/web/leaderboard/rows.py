"""The tables of the page of leaderboards: rows of what the report shows, with no figure of their own."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import polars as pl

from rag_assay.evals.reporting.data import MetricInfo
from rag_assay.evals.reporting.display import format_counts
from rag_assay.evals.reporting.live_boards import AnswerProgress, LiveBoard, StudyNow
from rag_assay.evals.reporting.standings import CellStanding, Subset
from rag_assay.evals.study.cells import AXES

Row = dict[str, Any]

OVERVIEW = {
    "study": pl.String,
    "leader": pl.String,
    "value": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "tied with it": pl.Int64,
    "questions": pl.Int64,
    "coverage": pl.Float64,
    "recommended": pl.String,
    "answers": pl.String,
    "run at": pl.String,
    "metric": pl.String,
    "state": pl.String,
}
CELLS = {
    "rank": pl.Int64,
    "tie group": pl.Int64,
    "recommended": pl.Boolean,
    **dict.fromkeys(AXES, pl.String),
    "value": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "coverage": pl.Float64,
    "questions": pl.Int64,
    "failures": pl.String,
    "US$ for 1,000": pl.Float64,
    "p50 s": pl.Float64,
    "p95 s": pl.Float64,
    "cell": pl.String,
}


def overview(studies: Sequence[StudyNow]) -> pl.DataFrame:
    """Return a row a study: its leader, how sure that is, and how far the study is."""
    return pl.DataFrame([_study(one) for one in studies], schema=OVERVIEW, orient="row")


def _study(one: StudyNow) -> Row:
    row: Row = {
        "study": one.name,
        "answers": progress_words(one.progress),
        "run at": f"{one.run_at:%Y-%m-%d %H:%M}" if one.run_at else None,
        "state": one.trouble or ("answers are missing" if is_unfinished(one.progress) else "up to date"),
    }
    board = one.board
    if board is None:
        return row
    verdict = board.data.verdict
    row |= {"metric": verdict.title, "questions": verdict.questions}
    if verdict.leader and verdict.recommended:
        first = verdict.leader
        row |= {
            "recommended": verdict.recommended.cell.partition(".")[2],
            "leader": first.cell.partition(".")[2],
            **{name: getattr(first, name) for name in ("value", "low", "high", "coverage")},
            "tied with it": len(verdict.tied),
        }
    return row


def progress_words(progress: AnswerProgress | None) -> str | None:
    """Say how many answers there are, of how many.

    >>> some = AnswerProgress(3, 1200, {}), AnswerProgress(0, None, {}), None
    >>> tuple(map(progress_words, some))
    ('3 of 1,200', '0 of ?', None)
    """
    if progress is None:
        return None
    return f"{progress.done:,} of {'?' if progress.wanted is None else f'{progress.wanted:,}'}"


def is_unfinished(progress: AnswerProgress | None) -> bool:
    """Return whether answers are wanted that are not there."""
    return progress is not None and progress.wanted is not None and progress.done < progress.wanted


def cell_rows(
    board: LiveBoard, subset: Subset, metric: MetricInfo, progress: AnswerProgress | None
) -> pl.DataFrame:
    """Return a row a cell, by rank, or else by the metric, the best first; what has no value comes last.

    The value of a cell that has none is NULL, and its failures stand beside it.
    """
    standings = list(subset.standings)
    if metric != board.data.primary:
        standings.sort(key=lambda one: _by_value(one, metric))
    failed = progress.failed if progress else {}
    rows = [_cell(one, board, metric, failed) for one in standings]
    return pl.DataFrame(rows, schema=CELLS, orient="row")


def _by_value(one: CellStanding, metric: MetricInfo) -> tuple[bool, float, str]:
    result = one.results.get(metric.name)
    value = result.value if result else None
    return (value is None, (-1 if metric.higher_is_better else 1) * (value or 0.0), one.cell.key)


def _cell(
    one: CellStanding, board: LiveBoard, metric: MetricInfo, failed: Mapping[str, Mapping[str, int]]
) -> Row:
    result, cost = one.results.get(metric.name), board.running.get(one.cell.key)
    taken = board.data.verdict.recommended
    return {
        "rank": one.rank,
        "tie group": one.tie_group,
        "recommended": taken is not None and one.cell.key == taken.cell,
        **{axis: getattr(one.cell, axis) for axis in AXES},
        "value": result.value if result else None,
        "low": result.low if result else None,
        "high": result.high if result else None,
        "coverage": one.coverage(metric),
        "questions": result.n if result else None,
        "failures": format_counts(failed.get(one.cell.key, {})) or None,
        "US$ for 1,000": cost.usd if cost else None,
        "p50 s": cost.p50 if cost else None,
        "p95 s": cost.p95 if cost else None,
        "cell": one.cell.key,
    }


def chosen_axes(rows: pl.DataFrame, chosen: Mapping[str, Collection[str]]) -> pl.DataFrame:
    """Return the rows whose parts were chosen, on each axis on which anything was.

    >>> rows = pl.DataFrame({"chunking": ["a", "b", None]})
    >>> chosen_axes(rows, {"chunking": ["b"]})["chunking"].to_list(), len(chosen_axes(rows, {"chunking": []}))
    (['b'], 3)
    """
    for axis, names in chosen.items():
        if names:
            rows = rows.filter(pl.col(axis).is_in(list(names)))
    return rows
