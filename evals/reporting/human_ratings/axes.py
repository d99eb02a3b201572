"""What people gave at each level of an axis: how many answers at each anchor, means, and what differs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from rag_assay.evals.reporting.charts.shares import Bar, bar
from rag_assay.evals.reporting.data import MetricInfo, ReportData
from rag_assay.evals.reporting.display import number, several, truncate
from rag_assay.evals.reporting.effect_words import effect_words
from rag_assay.evals.reporting.effects import AxisEffect
from rag_assay.evals.reporting.rating_scores import AXES, ScoredAnswers, ScoresOfPeople
from rag_assay.evals.statistics.bootstrap import bootstrap
from rag_assay.evals.statistics.effects import effect, over_contexts
from rag_assay.evals.statistics.full_crossing import find_crossing
from rag_assay.evals.statistics.question_clusters import Clustering
from rag_assay.evals.statistics.resampling import Floats

CALLED = 80  # characters of what a sheet calls a level


@dataclass(frozen=True)
class Difference:
    """How far a level is from the best one, in equal contexts; `apart`: both tests tell them apart."""

    value: float
    low: float | None
    high: float | None
    p: float
    apart: bool


@dataclass(frozen=True)
class Level:
    """The scored answers of one level of an axis.

    counts: answers at each anchor, the best first; between: those that people differ in
    low, high: interval of the mean, over the questions; None: too few of them
    called: what a sheet calls it; empty where that is its name
    is_best: that all others are compared with; difference: None of it, and where nothing could be compared
    """

    name: str
    n: int
    questions: int
    counts: tuple[int, ...]
    between: int
    bar: Bar
    mean: float
    low: float | None
    high: float | None
    called: str = ""
    is_best: bool = False
    difference: Difference | None = None


@dataclass(frozen=True)
class AxisSaid:
    """An axis: its levels, the best mean first, and what can be said of their differences.

    compared: levels that were compared with the best
    apart: of them the significantly different ones, and by how much
    left_out: levels that are not shown
    """

    axis: str
    levels: tuple[Level, ...]
    sentences: tuple[str, ...]
    compared: int
    apart: tuple[tuple[str, float], ...]
    left_out: int
    between: bool


def metric_of(answers: ScoredAnswers) -> MetricInfo:
    """Return the criterion as a metric: higher values are better."""
    about = answers.criterion.ask
    title = f"{answers.title} by people"
    return MetricInfo(answers.name, title, "answer", True, answers.criterion.bounds, "", about, "answers")


def axes_said(people: ScoresOfPeople, answers: ScoredAnswers, data: ReportData, most: int) -> list[AxisSaid]:
    """Return the axes on which scored answers differ.

    most: levels of each that are shown
    """
    return [_axis(people, answers, axis, data, most) for axis in AXES if len(answers.levels(axis)) > 1]


def axis_effect(answers: ScoredAnswers, axis: str, seed: int, clusters: Clustering) -> AxisEffect | None:
    """Compare the levels of an axis over equal contexts; None where no two of them meet in one."""
    table, places, questions = _table(answers)
    crossed = find_crossing(places, [AXES.index(axis)]) if places else None
    if crossed is None:
        return None
    column = {place: at for at, place in enumerate(places)}
    at = AXES.index(axis)
    wanted = [
        column[crossed.place([at], [level], context)]
        for context in crossed.contexts
        for level in crossed.levels[0]
    ]
    shape = (len(questions), len(crossed.contexts), len(crossed.levels[0]))
    found = effect(over_contexts(table[:, wanted].reshape(shape)), seed, clusters.codes(questions))
    if found is None:
        return None
    least, most = answers.criterion.bounds
    found = found._replace(low=np.clip(found.low, least, most), high=np.clip(found.high, least, most))
    levels = crossed.levels[0]
    return AxisEffect(axis, AXES, metric_of(answers), "all", levels, crossed, len(places), found)


def least_words(found: AxisEffect) -> str:
    """Say how small a difference would have been found.

    Without any it is said that none could have been, however large.
    """
    known = found.found.detectable[np.isfinite(found.found.detectable)]
    asked = several(found.found.n, "question")
    if not len(known):
        return f"With {asked} no difference can be told, however large it is."
    low, high = number(float(known.min())), number(float(known.max()))
    further = "" if low == high else f" ({high} of the level that varies most)"
    return (
        f"The smallest true difference from the best that {asked} would have shown four times out of five is "
        f"{low}{further}."
    )


def _axis(people: ScoresOfPeople, answers: ScoredAnswers, axis: str, data: ReportData, most: int) -> AxisSaid:
    compared = axis_effect(answers, axis, data.seed, data.clusters)
    known = _differences(compared)
    levels = []
    for name in answers.levels(axis):
        called = people.called.get((axis, name), name)
        level = _level(answers, axis, name, data)
        levels.append(
            replace(
                level,
                called="" if called == name else truncate(called, CALLED),
                is_best=compared is not None and compared.best == name,
                difference=known.get(name),
            )
        )
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
        bar(counts, between),
        mean.mean,
        None if mean.low is None else max(least, mean.low),
        None if mean.high is None else min(most, mean.high),
    )


def _table(answers: ScoredAnswers) -> tuple[Floats, list[tuple[str, ...]], list[str]]:
    """Return the values of the answers from rankings, their cells and questions: (questions, cells)."""
    rows = answers.rows.drop_nulls(list(AXES)).group_by("question_id", *AXES).agg(pl.col("value").mean())
    places = sorted(set(rows.select(AXES).iter_rows()))
    questions = sorted(set(rows["question_id"]))
    table = np.full((len(questions), len(places)), np.nan)
    row, column = ({name: at for at, name in enumerate(names)} for names in (questions, places))
    for question, *place, value in rows.iter_rows():
        table[row[question], column[tuple(place)]] = value
    return table, places, questions


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
