"""What people said as rows beside those of the leaderboard."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.human_ratings.axes import Level, axes_said
from rag_assay.evals.reporting.rating_scores import AXES, ScoredAnswers, ScoresOfPeople

Row = dict[str, Any]
SAID, AGREEMENT = "said", "agreement"
PEOPLE_COLUMNS = (
    "rubric",
    "criterion",
    "question_id",
    "annotator",
    "other",
    "counts",
    "between",
    "called",
    "reason",
)
"""Beside those of the leaderboard, in rows that have a `rubric`."""
_ALL = 1_000_000


def people_rows(data: ReportData) -> list[Row]:
    """Return rows of what people scored, and of how far they agree.

    `said:people.RUBRIC` is the mean of scored answers with the `counts` of those at each value: of a level of
    an axis, with its difference from the best; of a combination of all axes; of a question (`question_id`).
    `agreement:MEASURE` is a row of `current_agreement`.
    """
    people = data.people
    if people is None:
        return []
    rows = [row for answers in people.criteria() for row in _said(people, answers, data)]
    for row in people.agreement.iter_rows(named=True):
        rest = {name: row[name] for name in ("rubric", "criterion", "annotator", "other", "reason")}
        figures = {name: row[name] for name in ("value", "low", "high", "n")}
        rows.append({"subset": "all", "metric": f"{AGREEMENT}:{row['measure']}", **rest, **figures})
    return rows


def _said(people: ScoresOfPeople, answers: ScoredAnswers, data: ReportData) -> Iterator[Row]:
    named = {
        "subset": "all",
        "metric": f"{SAID}:{answers.name}",
        "rubric": answers.rubric,
        "criterion": answers.criterion.name,
    }
    for axis in axes_said(people, answers, data, _ALL):
        best = next((one.name for one in axis.levels if one.is_best), None)
        for level in axis.levels:
            yield {**named, axis.axis: level.name, **_level(level, answers, best)}
    rows = answers.rows.with_columns(grade=pl.Series(answers.grades))
    for by in ([*AXES], ["question_id"]):
        for *place, value, n, grades in _means(rows, by):
            counts = _counts(answers, [grades.count(at) for at in range(len(answers.anchors))])
            means = {"value": value, "n": n, "counts": counts, "between": grades.count(-1)}
            yield {**named, **dict(zip(by, place, strict=True)), **means}


def _means(rows: pl.DataFrame, by: list[str]) -> Iterator[tuple[Any, ...]]:
    found = rows.group_by(by).agg(pl.col("value").mean(), n=pl.len(), grades=pl.col("grade"))
    return found.sort(by, nulls_last=True).iter_rows()


def _level(level: Level, answers: ScoredAnswers, best: str | None) -> Row:
    found: Row = {
        "value": level.mean,
        "low": level.low,
        "high": level.high,
        "n": level.n,
        "counts": _counts(answers, level.counts),
        "between": level.between,
        "called": level.called or None,
        "leader": best,
    }
    if level.is_best:
        return {**found, "difference": 0.0, "tied": True}
    if level.difference is None:
        return {**found, "reason": "not compared: too few answers in equal contexts"}
    one = level.difference
    ends = {"difference": one.value, "difference_low": one.low, "difference_high": one.high}
    return {**found, **ends, "p": one.p, "tied": not one.apart}


def _counts(answers: ScoredAnswers, counts: Any) -> Mapping[str, int]:
    return {f"{anchor:g}": n for anchor, n in zip(answers.anchors, counts, strict=True)}
