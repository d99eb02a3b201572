"""Human ratings at each level of an axis, in sentences, and as rows beside the leaderboard's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from rag_assay.evals.reporting.rating_scores import ScoredAnswers, ScoresOfPeople, written
from rag_assay.evals.reporting.standings import Values, value_table
from rag_assay.evals.statistics.alpha import RELIABLE, TENTATIVE
from rag_assay.evals.statistics.bootstrap import bootstrap
from rag_assay.evals.statistics.effects import effect, over_contexts
from rag_assay.evals.statistics.question_clusters import Clustering
from rag_assay.evals.study.cells import AXES

CALLED = 80  # characters of what a sheet calls a level


Row = Mapping[str, Any]
NOT_COMPARED = "not compared: too few answers in equal contexts"


@dataclass(frozen=True)
class AxisSaid:
    """An axis: its levels, the best mean first, as rows of `people_rows`."""

    axis: str
    levels: tuple[Row, ...]
    sentences: tuple[str, ...]

    @property
    def between(self) -> bool:
        """Whether annotators differ in an answer."""
        return any(one["between"] for one in self.levels)


def metric_of(answers: ScoredAnswers) -> MetricInfo:
    about = answers.criterion.ask
    title = f"{answers.title} by people"
    return MetricInfo(answers.name, title, "answer", True, answers.criterion.bounds, "", about, "answers")


def axes_said(people: ScoresOfPeople, answers: ScoredAnswers, data: ReportData) -> list[AxisSaid]:
    return [_axis(people, answers, axis, data) for axis in AXES if len(answers.levels(axis)) > 1]


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


def _axis(people: ScoresOfPeople, answers: ScoredAnswers, axis: str, data: ReportData) -> AxisSaid:
    compared = axis_effect(answers, axis, data.seed, data.clusters)
    levels = []
    for name in answers.levels(axis):
        called = people.called.get((axis, name), name)
        known = {"called": None if called == name else truncate(called, CALLED)}
        levels.append(
            {axis: name, **_level(answers, axis, name, data), **known, **_difference(compared, name)}
        )
    levels.sort(key=lambda row: (-row["value"], row[axis]))
    if compared is None:
        sentences: tuple[str, ...] = (
            f"The {axis}s cannot be compared: of no question answers were scored in equal contexts of two.",
        )
    else:
        sentences = (effect_words(compared), least_words(compared))
    return AxisSaid(axis, tuple(levels), sentences)


def _difference(compared: AxisEffect | None, name: str) -> Row:
    if compared is None:
        return {"leader": None, "reason": NOT_COMPARED}
    if name == compared.best:
        return {"leader": name, "difference": 0.0, "tied": True}
    found, at = compared.found, compared.levels.index(name) if name in compared.levels else -1
    if at < 0 or not np.isfinite(found.p[at]):
        return {"leader": compared.best, "reason": NOT_COMPARED}
    ends = {"difference_low": found.difference_low[at], "difference_high": found.difference_high[at]}
    return {
        "leader": compared.best,
        "difference": float(found.difference[at]),
        **{end: float(value) if np.isfinite(value) else None for end, value in ends.items()},
        "p": float(found.p[at]),
        "tied": not found.apart[at],
    }


def _level(answers: ScoredAnswers, axis: str, name: str, data: ReportData) -> Row:
    """Return mean with interval, and how many answers are at each anchor; `between`: annotators differ."""
    chosen = (answers.rows[axis] == name).fill_null(value=False).to_numpy()
    values, grades = answers.values[chosen], answers.grades[chosen]
    questions = answers.rows["question_id"].filter(pl.Series(chosen)).to_list()
    mean = bootstrap(values, data.seed, data.clusters.codes(questions), answers.criterion.bounds)
    assert mean is not None  # noqa: S101 -- a level has answers
    least, most = answers.criterion.bounds
    return {
        "value": mean.mean,
        "low": None if mean.low is None else max(least, mean.low),
        "high": None if mean.high is None else min(most, mean.high),
        "n": len(values),
        "counts": _counts(answers, grades.tolist()),
        "between": int((grades < 0).sum()),
    }


def _counts(answers: ScoredAnswers, grades: Sequence[int]) -> Mapping[str, int]:
    return {f"{anchor:g}": grades.count(at) for at, anchor in enumerate(answers.anchors)}


NAMED, NAMED_LEVELS = 4, 6  # of annotators, and of levels that differ; the rest are counted


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
    compared = [
        (axis.axis, one)
        for axis in axes
        for one in sorted(axis.levels, key=lambda row: row[axis.axis])
        if "p" in one
    ]
    if not compared:
        return "No two levels of an axis could be compared."
    apart = [
        f"{row[axis]} ({axis}, {with_sign(row['difference'])})" for axis, row in compared if not row["tied"]
    ]
    of = several(len(compared), "level")
    if not apart:
        return f"No level is significantly below the best of its axis ({of} compared)."
    verb, named = "is" if len(apart) == 1 else "are", listed(apart, NAMED_LEVELS)
    return f"{len(apart)} of {of} {verb} significantly below the best of the axis: {named}."


def of_all(answers: ScoredAnswers, measure: str) -> Row | None:
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


def people_rows(data: ReportData) -> list[dict[str, Any]]:
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


def _said(people: ScoresOfPeople, answers: ScoredAnswers, data: ReportData) -> Iterator[dict[str, Any]]:
    named = {
        "subset": "all",
        "metric": f"{SAID}:{answers.name}",
        "rubric": answers.rubric,
        "criterion": answers.criterion.name,
    }
    for axis in axes_said(people, answers, data):
        yield from ({**named, **level} for level in axis.levels)
    rows = answers.rows.with_columns(grade=pl.Series(answers.grades))
    for by in ([*AXES], ["question_id"]):
        found = rows.group_by(by).agg(pl.col("value").mean(), n=pl.len(), grades=pl.col("grade"))
        for *place, value, n, grades in found.sort(by, nulls_last=True).iter_rows():
            means = {"value": value, "n": n, "counts": _counts(answers, grades), "between": grades.count(-1)}
            yield {**named, **dict(zip(by, place, strict=True)), **means}
