"""Answers at full score for each chunking: how often the best value there is was reached."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from rag_assay.evals.reporting import limits
from rag_assay.evals.reporting.charts.bars import (
    BarColumn,
    BarTable,
    BarValue,
    ColumnHeading,
    Mark,
    column,
    rows_of,
)
from rag_assay.evals.reporting.charts.bars import written as written_value
from rag_assay.evals.reporting.data import MetricInfo, ReportData
from rag_assay.evals.reporting.figures.captions import left_out
from rag_assay.evals.reporting.matrix import natural
from rag_assay.evals.reporting.rating_scores import ScoredAnswers, written
from rag_assay.evals.reporting.standings import Subset
from rag_assay.evals.reporting.values import values_of
from rag_assay.evals.statistics.bootstrap import UNIT, bootstrap, intervals
from rag_assay.evals.statistics.effects import over_contexts
from rag_assay.evals.statistics.full_crossing import find_crossing

_NEAR = 1e-9
FEWEST = 0.005
"""Share of all values that are full, below which the best value is no score that is reached."""


class Shares(NamedTuple):
    """What a metric gave its best value to, of each chunking.

    found: chunking -> share with its interval, and how many of how many
    """

    title: str
    best: str
    about: str
    found: dict[str, BarValue]


def full_scores_figure(data: ReportData, subset: Subset) -> BarTable | None:
    """Return the share of values at the best there is, of each chunking; None where nothing reaches it."""
    every = [*_of_people(data), *_of_metrics(data, subset)]
    shown = every[: limits.METRICS_COLUMNS]
    every_name = sorted({name for one in shown for name in one.found}, key=natural)
    names = every_name[: limits.FULL_SCORE_ROWS]
    if len(names) < 2:
        return None
    columns = [_column(one, names) for one in shown]
    return BarTable(
        "chart-full-scores",
        "Full score by chunking",
        _about(shown, names),
        "Chunking",
        tuple(head for head, _ in columns),
        rows_of(names, columns),
        left_out(
            "they are on the leaderboard",
            chunking=len(every_name) - len(names),
            metric=len(every) - len(shown),
        ),
    )


def _column(shares: Shares, names: Sequence[str]) -> tuple[BarColumn, list[Mark | str]]:
    none = BarValue(None, why="not in equal contexts with the others")
    figures = [shares.found.get(name, none) for name in names]
    return column(ColumnHeading(shares.title, "%", shares.about, shares.best), figures)


def _about(shown: Sequence[Shares], names: Sequence[str]) -> str:
    first = shown[0]
    values = {name: one.value for name in names if (one := first.found.get(name)) and one.value is not None}
    best = max(values, key=values.__getitem__)
    least = min(values, key=values.__getitem__)
    words = f"{best} most often ({written_value(values[best], '%')})"
    if values[best] > values[least]:
        words += f", {least} least ({written_value(values[least], '%')})"
    return (
        "How many get the best value there is: of a mean, half as good everywhere and good in half of all "
        f"cases look alike. By {first.title}, {words}. Of metrics, chunkings are compared in equal contexts."
    )


def _of_metrics(data: ReportData, subset: Subset) -> Iterator[Shares]:
    """Yield metrics that reach their best value, in their order; what people scored stands for itself."""
    of_people = {one.name for one in data.people.criteria()} if data.people else set()
    for metric in data.metrics:
        if metric.kind != "cost" and metric.ideal is not None and metric.name not in of_people:
            found = _of_metric(data, subset, metric)
            if found:
                best = f"at {written(metric.ideal)}"
                yield Shares(metric.title, best, metric.explanation, found)


def _of_metric(data: ReportData, subset: Subset, metric: MetricInfo) -> dict[str, BarValue]:
    values = values_of(data, subset, metric)
    if values is None or "chunking" not in values.axes:
        return {}
    at = values.axes.index("chunking")
    crossed = find_crossing(values.places, [at])
    if crossed is None:
        return {}
    table = values.crossed(crossed, [at])
    table[np.isnan(table).any(axis=2)] = np.nan
    full = np.where(np.isnan(table), np.nan, np.abs(table - (metric.ideal or 0.0)) < _NEAR)
    of = int((~np.isnan(full[:, :, 0])).sum())
    if not of or np.nanmean(full) < FEWEST:
        return {}
    counts = np.nansum(full, axis=(0, 1)).astype(int).tolist()
    found = intervals(over_contexts(full), data.seed, data.clusters.codes(values.questions), UNIT)
    return {
        level: _figure(one.mean, one.low, one.high, n, of)
        for level, one, n in zip(crossed.levels[0], found, counts, strict=True)
        if one is not None
    }


def _figure(mean: float, low: float | None, high: float | None, n: int, of: int) -> BarValue:
    hundred = [None if one is None else 100 * min(1.0, max(0.0, one)) for one in (low, high)]
    return BarValue(100 * mean, hundred[0], hundred[1], (f"{n} of {of}",))


def _of_people(data: ReportData) -> Iterator[Shares]:
    for answers in data.people.criteria() if data.people else ():
        found = {name: _given(answers, name, data) for name in answers.levels("chunking")}
        if len(found) > 1:
            best = f"at {written(answers.anchors[0])}"
            yield Shares(f"{answers.title} by people", best, answers.criterion.ask, found)


def _given(answers: ScoredAnswers, name: str, data: ReportData) -> BarValue:
    chosen = (answers.rows["chunking"] == name).fill_null(value=False).to_numpy()
    full = (answers.grades[chosen] == 0).astype(np.float64)
    questions = answers.rows["question_id"].filter(pl.Series(chosen)).to_list()
    mean = bootstrap(full, data.seed, data.clusters.codes(questions), UNIT)
    assert mean is not None  # noqa: S101 -- a level has answers
    return _figure(mean.mean, mean.low, mean.high, int(full.sum()), len(full))
