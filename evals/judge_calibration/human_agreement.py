"""Agreement of a judge with what people scored of the same answers: rows of its card, and no call."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from rag_assay.evals.judge_calibration.agreement import overlap, ratings_of
from rag_assay.evals.judge_calibration.card import CardMeasure, accuracy, shares_of_range, turned
from rag_assay.evals.judging.contract import Judge, JudgedMetric
from rag_assay.evals.judging.judge_metrics import aggregate_replicates
from rag_assay.evals.metrics.contract import Score
from rag_assay.evals.rubrics.rubric import Criterion, Rubric, metric_name
from rag_assay.evals.statistics.alpha import krippendorffs_alpha
from rag_assay.evals.statistics.clusters import codes
from rag_assay.evals.statistics.estimate import Estimate, Floats, share
from rag_assay.evals.statistics.question_clusters import Clustering
from rag_assay.evals.statistics.raters import Agree, cohens_kappa, kendall, over_clusters
from rag_assay.evals.statistics.roc import roc_auc
from rag_assay.warehouse.schemas import Status

FEWEST = 20
"""Scored answers, below which a metric stays uncalibrated: of ten good ones and ten bad ones an area of 0.75
is just told from that of a coin (DeLong)."""
Place = tuple[str, str]
"""Key of a cell and replicate, id of a question."""


class Rated(NamedTuple):
    """Human ratings by one criterion.

    name: `people.RUBRIC[.CRITERION]`
    against: the cell, without the study, that answers are compared with
    values, items: of each place, the score and the id of the item
    own: agreement of the annotators (Krippendorff's alpha)
    """

    name: str
    criterion: Criterion
    against: str | None
    values: Mapping[Place, float]
    items: Mapping[Place, str]
    people: int = 0
    own: Estimate = Estimate(None, reason="not asked for")


def rated_of(
    rubrics: Mapping[str, Rubric],
    annotations: pl.DataFrame,
    counted: pl.DataFrame,
    seed: int,
    clusters: Clustering,
) -> list[Rated]:
    given = _given(annotations)
    questions = dict(given.select("item_id", "question_id").iter_rows())
    valued = counted.filter((pl.col("status") == "ok") & pl.col("value").is_not_null())
    found = []
    for name, rubric in rubrics.items():
        for criterion in rubric.criteria:
            rows = ratings_of(given, name, criterion)
            if len(rows):
                held = overlap(ratings_of(valued, name, criterion), questions, clusters)
                own = krippendorffs_alpha(held.items, held.values, rubric.level, seed, held.clusters)
                rated = _rated(name, rubric, criterion, rows)
                found.append(rated._replace(people=len(held.people), own=own))
    return found


def scored_by(rubrics: Mapping[str, Rubric], annotations: pl.DataFrame) -> list[Rated]:
    given = _given(annotations)
    return [
        _rated(name, rubric, criterion, rows)
        for name, rubric in rubrics.items()
        for criterion in rubric.criteria
        if len(rows := ratings_of(given, name, criterion))
    ]


def _given(annotations: pl.DataFrame) -> pl.DataFrame:
    return annotations.filter((pl.col("annotators") > 0) & pl.col("item_id").is_not_null())


def people_rows(
    judge: Judge,
    judgements: Mapping[str, Sequence[Mapping[str, Any]]],
    rated: Sequence[Rated],
    clusters: Clustering,
) -> Iterator[CardMeasure]:
    """Yield how far each metric of a judge agrees with human ratings, criterion by criterion; metrics of no
    answer are left out, and equal answers of several cells are one case.
    """
    for metric, one, cases in judged_cases(judge, judgements, rated):
        yield from _agreement(metric, one, cases, clusters)


class RatedAnswer(NamedTuple):
    """An answer that both have rated: people's score, and the judge's value."""

    question: str
    score: float
    value: float


def judged_cases(
    judge: Judge, judgements: Mapping[str, Sequence[Mapping[str, Any]]], rated: Sequence[Rated]
) -> Iterator[tuple[JudgedMetric, Rated, list[RatedAnswer]]]:
    for metric in judge.judged_metrics:
        rival = judge.against if "rival" in metric.needs else None
        if "answer" in metric.needs:
            found: dict[Place, list[Score]] = defaultdict(list)
            for cell, rows in judgements.items():
                for row in rows:
                    if row["metric"] == metric.name and row["replicate"] <= judge.times:
                        score = Score(Status(row["status"]), row["value"], row["reason"])
                        found[cell, row["question_id"]].append(score)
            scores = {place: aggregate_replicates(some, judge.vote).value for place, some in found.items()}
            said = {place: value for place, value in scores.items() if value is not None}
            for one in rated:
                if one.against == rival:
                    yield metric, one, _cases(one, said)


def good_side(score: float, criterion: Criterion) -> bool:
    least, most = criterion.bounds
    return score >= (least + most) / 2


def with_people(card: Sequence[CardMeasure], people: Sequence[CardMeasure]) -> list[CardMeasure]:
    known = {one.metric for one in people if one.measure == "auc"}
    kept = [
        one
        for one in card
        if not (one.metric in known and one.measure == "labels" and not one.estimate.value)
    ]
    return [*kept, *people]


def _agreement(
    metric: JudgedMetric, rated: Rated, cases: Sequence[RatedAnswer], clusters: Clustering
) -> Iterator[CardMeasure]:
    n, name = len(cases), rated.name
    missing = len(_cases(rated, rated.values)) - n
    lacking = f"{missing} more that people have scored have no value" if missing else None
    few = f"uncalibrated: {FEWEST} scored answers or more tell a judge from a coin" if n < FEWEST else None
    reason = "; ".join(one for one in (few, lacking) if one) or None
    yield CardMeasure(metric.name, "labels", Estimate(float(n), n=n, reason=reason), name)
    yield CardMeasure(metric.name, "people", Estimate(float(rated.people), n=n), name)
    yield CardMeasure(metric.name, "people_alpha", rated.own, name)
    if n < FEWEST:
        return
    scores = np.array([one.score for one in cases])
    values = turned(np.array([one.value for one in cases]), metric)
    drawn = codes([clusters.of.get(one.question, one.question) for one in cases])
    good = np.array([good_side(one, rated.criterion) for one in scores.tolist()], np.float64)
    shares = shares_of_range(values, metric)
    least, most = rated.criterion.bounds
    stretched = np.asarray(least + shares * (most - least))
    auc = over_clusters(lambda one, other: roc_auc(one > 0, other), good, values, drawn, (0.0, 1.0))
    yield CardMeasure(metric.name, "auc", auc, name)
    sides = (shares >= 0.5).astype(np.float64)
    right = over_clusters(_alike, good, sides, drawn, (0.0, 1.0))
    yield CardMeasure(metric.name, "accuracy", accuracy(right, auc, metric), name)
    yield CardMeasure(
        metric.name, "kappa", over_clusters(_kappa(rated.criterion), scores, stretched, drawn), name
    )
    yield CardMeasure(metric.name, "tau", over_clusters(kendall, scores, values, drawn), name)


def _alike(one: Floats, other: Floats) -> Estimate:
    return share(int((one == other).sum()), len(one))


def _kappa(criterion: Criterion) -> Agree:
    levels = np.array(sorted(criterion.anchors), np.float64)

    def nearest(values: Floats) -> Floats:
        return np.asarray(levels[np.abs(values[:, None] - levels[None, :]).argmin(axis=1)])

    return lambda one, other: cohens_kappa(nearest(one), nearest(other), "quadratic")


def _cases(rated: Rated, said: Mapping[Place, float]) -> list[RatedAnswer]:
    found: dict[tuple[str, float], list[tuple[str, float]]] = defaultdict(list)
    for place, score in rated.values.items():
        if place in said:
            found[rated.items[place], score].append((place[1], said[place]))
    return [
        RatedAnswer(some[0][0], score, sum(value for _, value in some) / len(some))
        for (_, score), some in found.items()
    ]


def _rated(name: str, rubric: Rubric, criterion: Criterion, rows: pl.DataFrame) -> Rated:
    places = list(zip(rows["cell"].to_list(), rows["question_id"].to_list(), strict=True))
    values = dict(zip(places, rows["value"].to_list(), strict=True))
    items = dict(zip(places, rows["item_id"].to_list(), strict=True))
    return Rated(metric_name(name, criterion.name), criterion, rubric.against, values, items)
