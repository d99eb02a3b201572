"""Human ratings at each level of an axis, in sentences, and as rows beside the leaderboard's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from rag_assay.evals.judge_calibration.agreement import FEW
from rag_assay.evals.reporting.data import MetricInfo, ReportData
from rag_assay.evals.reporting.display import (
    count,
    interval,
    listed,
    number,
    percent,
    several,
    truncate,
    with_sign,
)
from rag_assay.evals.reporting.effects import AxisEffect, effect_words
from rag_assay.evals.reporting.rating_scores import AXES, ScoredAnswers, ScoresOfPeople, written
from rag_assay.evals.reporting.standings import Values, value_table
from rag_assay.evals.statistics.alpha import RELIABLE, TENTATIVE
from rag_assay.evals.statistics.bootstrap import bootstrap
from rag_assay.evals.statistics.effects import effect, over_contexts
from rag_assay.evals.statistics.question_clusters import Clustering

CALLED = 80  # characters of what a sheet calls a level


@dataclass(frozen=True)
class Difference:
    """Difference from the best level, in equal contexts; apart: significant by both tests."""

    value: float
    low: float | None
    high: float | None
    p: float
    apart: bool


@dataclass(frozen=True)
class Level:
    """The rated answers of one level of an axis.

    counts: answers at each anchor, the best first; between: those that annotators differ in
    low, high: interval of the mean, over the questions; None: too few of them
    called: its name in the spreadsheet, where that is another
    difference: None of the best, and where nothing could be compared
    """

    name: str
    n: int
    questions: int
    counts: tuple[int, ...]
    between: int
    mean: float
    low: float | None
    high: float | None
    called: str = ""
    is_best: bool = False
    difference: Difference | None = None


@dataclass(frozen=True)
class AxisSaid:
    """An axis: its levels, the best mean first.

    compared: levels that were compared with the best
    apart: significantly different ones of them, and by how much
    """

    axis: str
    levels: tuple[Level, ...]
    sentences: tuple[str, ...]
    compared: int
    apart: tuple[tuple[str, float], ...]
    left_out: int
    between: bool


def metric_of(answers: ScoredAnswers) -> MetricInfo:
    about = answers.criterion.ask
    title = f"{answers.title} by people"
    return MetricInfo(answers.name, title, "answer", True, answers.criterion.bounds, "", about, "answers")


def axes_said(people: ScoresOfPeople, answers: ScoredAnswers, data: ReportData, most: int) -> list[AxisSaid]:
    return [_axis(people, answers, axis, data, most) for axis in AXES if len(answers.levels(axis)) > 1]


def axis_effect(answers: ScoredAnswers, axis: str, seed: int, clusters: Clustering) -> AxisEffect | None:
    """Compare the levels of an axis over equal contexts; None where no two of them meet in one."""
    rows = answers.rows.drop_nulls(list(AXES)).group_by("question_id", *AXES).agg(pl.col("value").mean())
    if rows.is_empty():
        return None
    rows = rows.with_columns(cell=pl.concat_str(*AXES, separator="\n"))
    places = tuple(sorted(set(rows.select(AXES).iter_rows())))
    questions = sorted(set(rows["question_id"]))
    table = value_table(rows, questions, ["\n".join(place) for place in places])
    along = Values(AXES, places, tuple(questions), table).along(axis)
    if along is None:
        return None
    crossed, crossed_values = along
    found = effect(over_contexts(crossed_values), seed, clusters.codes(questions))
    if found is None:
        return None
    least, most = answers.criterion.bounds
    found = found._replace(low=np.clip(found.low, least, most), high=np.clip(found.high, least, most))
    levels = crossed.levels[0]
    return AxisEffect(axis, AXES, metric_of(answers), "all", levels, crossed, len(places), found)


def least_words(found: AxisEffect) -> str:
    """Say how small a difference would have been found."""
    known = found.found.detectable[np.isfinite(found.found.detectable)]
    asked = several(found.found.n, "question")
    if not len(known):
        return f"With {asked} no difference can be significant, however large it is."
    low, high = number(float(known.min())), number(float(known.max()))
    further = "" if low == high else f" ({high} of the level that varies most)"
    return (
        f"The smallest true difference from the best that {asked} would have shown four times out of five is "
        f"{low}{further}."
    )


def _axis(people: ScoresOfPeople, answers: ScoredAnswers, axis: str, data: ReportData, most: int) -> AxisSaid:
    compared = axis_effect(answers, axis, data.seed, data.clusters)
    known = _differences(compared)
    best = compared.best if compared else None
    levels = [
        replace(
            _level(answers, axis, name, data),
            called=""
            if (called := people.called.get((axis, name), name)) == name
            else truncate(called, CALLED),
            is_best=name == best,
            difference=known.get(name),
        )
        for name in answers.levels(axis)
    ]
    levels.sort(key=lambda one: (-one.mean, one.name))
    if compared is None:
        sentences: tuple[str, ...] = (
            f"The {axis}s cannot be compared: of no question answers were scored in equal contexts of two.",
        )
    else:
        sentences = (effect_words(compared), least_words(compared))
    between = any(one.between for one in levels)
    apart = tuple((name, one.value) for name, one in known.items() if one.apart)
    left_out = max(0, len(levels) - most)
    return AxisSaid(axis, tuple(levels[:most]), sentences, len(known), apart, left_out, between)


def _differences(compared: AxisEffect | None) -> Mapping[str, Difference]:
    if compared is None:
        return {}
    found = compared.found
    return {
        level: Difference(
            float(found.difference[at]),
            _number(found.difference_low[at]),
            _number(found.difference_high[at]),
            float(found.p[at]),
            found.apart[at],
        )
        for at, level in enumerate(compared.levels)
        if at != found.best and np.isfinite(found.p[at])
    }


def _level(answers: ScoredAnswers, axis: str, name: str, data: ReportData) -> Level:
    chosen = (answers.rows[axis] == name).fill_null(value=False).to_numpy()
    values, grades = answers.values[chosen], answers.grades[chosen]
    questions = answers.rows["question_id"].filter(pl.Series(chosen)).to_list()
    mean = bootstrap(values, data.seed, data.clusters.codes(questions), answers.criterion.bounds)
    assert mean is not None  # noqa: S101 -- a level has answers
    least, most = answers.criterion.bounds
    counts = tuple(int((grades == at).sum()) for at in range(len(answers.anchors)))
    between = int((grades < 0).sum())
    return Level(
        name,
        len(values),
        len(set(questions)),
        counts,
        between,
        mean.mean,
        None if mean.low is None else max(least, mean.low),
        None if mean.high is None else min(most, mean.high),
    )


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


NAMED, NAMED_LEVELS = 4, 6  # of annotators, and of levels that differ; the rest are counted
_Row = Mapping[str, Any]


def scored_words(answers: ScoredAnswers) -> str:
    people = sorted(answers.scores["annotator"].unique())
    n, of, ties = answers.given, answers.of, len(answers.rows) - answers.given
    items = of_all(answers, "items")
    scale = " / ".join(written(value) for value in answers.anchors)
    share = "all answers of the study" if n == of else f"{percent(n / of)} of the study's {count(of)}"
    alike = ""
    if items is not None and items["n"] and items["n"] < n:
        alike = f"; equal answers with equal passages were scored once, {several(items['n'], 'item')} in all"
    if ties:
        alike += f"; {several(ties, 'pair')} of equal answers count as a tie without a rating"
    return (
        f"{listed(people, NAMED)} gave {several(len(answers.scores), 'score')} ({scale}) to "
        f"{several(n, 'answer')}, {share}{alike}."
    )


def agreement_words(answers: ScoredAnswers) -> str:
    alpha, equal = of_all(answers, "alpha"), of_all(answers, "equal")
    if alpha is None:
        return "The agreement of annotators was not computed."
    n = alpha["n"] or 0
    if alpha["value"] is None:
        return f"The agreement of annotators is unknown: {alpha['reason']}."
    ends = interval(alpha["low"], alpha["high"])
    known = f" [{ends}]" if alpha["low"] is not None else ""
    on = f"on the {several(n, 'item')} that two or more scored"
    words = f"Krippendorff's alpha is {number(alpha['value'])}{known} {on}"
    if equal is not None and equal["value"] is not None:
        words += f"; {percent(equal['value'])} of their scores of one item are equal"
    return f"{words}: {_worth(alpha['value'], n)}."


def short_words(answers: ScoredAnswers) -> str:
    people = sorted(answers.scores["annotator"].unique())
    who = f"{listed(people, NAMED)} scored {count(answers.given)} of {several(answers.of, 'answer')}"
    mean = f"mean {number(float(answers.values.mean()))}"
    return f"People by {answers.title}: {who}, {mean}. {agreement_words(answers)}"


def differences_words(axes: Sequence[AxisSaid]) -> str:
    compared = sum(axis.compared for axis in axes)
    if not compared:
        return "No two levels of an axis could be compared."
    apart = [f"{name} ({axis.axis}, {with_sign(value)})" for axis in axes for name, value in axis.apart]
    of = several(compared, "level")
    if not apart:
        return f"No level is significantly below the best of its axis ({of} compared)."
    verb, named = "is" if len(apart) == 1 else "are", listed(apart, NAMED_LEVELS)
    return f"{len(apart)} of {of} {verb} significantly below the best of the axis: {named}."


def of_all(answers: ScoredAnswers, measure: str) -> _Row | None:
    """Return a measure of all annotators together, if it was taken."""
    rows = answers.agreement.filter((pl.col("measure") == measure) & pl.col("annotator").is_null())
    return rows.row(0, named=True) if len(rows) else None


def _worth(alpha: float, n: int) -> str:
    if n < FEW:
        return f"too few items to say more; {FEW} or more tell how far people agree"
    if alpha >= RELIABLE:
        return f"enough to draw conclusions ({RELIABLE} or more)"
    if alpha >= TENTATIVE:
        return f"enough for tentative conclusions ({TENTATIVE} to {RELIABLE})"
    return f"too little for conclusions, tentative ones included (below {TENTATIVE})"


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
    """Return rows of human ratings and of agreement.

    `said:people.RUBRIC` is the mean of rated answers with the `counts` at each value: of a level of an axis,
    with its difference from the best, of a combination of all axes, or of a question.
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
            yield {**named, axis.axis: level.name, **_level_row(level, answers, best)}
    rows = answers.rows.with_columns(grade=pl.Series(answers.grades))
    for by in ([*AXES], ["question_id"]):
        found = rows.group_by(by).agg(pl.col("value").mean(), n=pl.len(), grades=pl.col("grade"))
        for *place, value, n, grades in found.sort(by, nulls_last=True).iter_rows():
            counts = _counts(answers, [grades.count(at) for at in range(len(answers.anchors))])
            means = {"value": value, "n": n, "counts": counts, "between": grades.count(-1)}
            yield {**named, **dict(zip(by, place, strict=True)), **means}


def _level_row(level: Level, answers: ScoredAnswers, best: str | None) -> Row:
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
