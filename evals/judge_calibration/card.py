"""A judge's card: how far it can be trusted, one row a measure (schemas.JUDGE_CARDS)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from rag_assay.evals.judge_calibration.agreement import overlap, ratings_of
from rag_assay.evals.judge_calibration.judge_trials import CalibrationJudgements, Row
from rag_assay.evals.judging.cards.mutations import MUTATIONS
from rag_assay.evals.judging.contract import Judge, JudgedMetric
from rag_assay.evals.judging.judge_metrics import aggregate_replicates
from rag_assay.evals.metrics.contract import Score
from rag_assay.evals.rubrics.rubric import Criterion, Rubric, metric_name
from rag_assay.evals.statistics.bootstrap import bootstrap
from rag_assay.evals.statistics.clusters import codes
from rag_assay.evals.statistics.estimate import Estimate, Floats, share
from rag_assay.evals.statistics.question_clusters import Clustering
from rag_assay.evals.statistics.raters import (
    Agree,
    cohens_kappa,
    kendall,
    krippendorffs_alpha,
    over_clusters,
    roc_auc,
    spearman,
)
from rag_assay.warehouse.schemas import Status

ALIKE = 0.01
"""Two values are as high as each other where they differ by no more than this share of the metric's range."""
MOST_LEVELS = 11  # of labels that are grades, not numbers
PER = 1_000  # cases that costs are of


class CardMeasure(NamedTuple):
    """One row of a card; ``part``: what of, where it is not of all."""

    metric: str | None
    measure: str
    estimate: Estimate
    part: str | None = None


def card_rows(judged: CalibrationJudgements, unmade: Mapping[str, Sequence[str]]) -> list[CardMeasure]:
    found: list[CardMeasure] = []
    for metric in judged.metrics:
        for measures in (_parsed, _flips, _labelled, _length):
            found += measures(judged, metric)
        found += _caught(judged, metric, unmade)
        found += _controls(judged, metric, unmade)
    return found + list(_costs(judged))


def stored_rows(study: str, judge: str, measured: Sequence[CardMeasure]) -> list[dict[str, Any]]:
    named = {"study": study, "judge": judge}
    return [
        {**named, "metric": one.metric, "measure": one.measure, "slice": one.part, **one.estimate._asdict()}
        for one in measured
    ]


def _parsed(judged: CalibrationJudgements, metric: JudgedMetric) -> Iterator[CardMeasure]:
    rows = judged.asked(metric)
    statuses = Counter(str(row["status"]) for row in rows)
    with_value = sum(row["value"] is not None for row in rows)
    found = share(with_value, len(rows))
    if not rows:
        found = found._replace(reason="it was asked for nothing yet")
    yield CardMeasure(metric.name, "parse_rate", found)
    for status, count in sorted(statuses.items()):
        if status != "ok":
            yield CardMeasure(metric.name, "status", share(count, len(rows)), status)


def _flips(judged: CalibrationJudgements, metric: JudgedMetric) -> Iterator[CardMeasure]:
    replicates = judged.replicates(metric)
    pairs = [[abs(one - other) for one, other in combinations(values, 2)] for values in replicates]
    if not pairs:
        reason = "no case was judged twice" if judged.judge.varies else "it judges a case alike each time"
        yield CardMeasure(metric.name, "flip_rate", Estimate(None, reason=reason))
        return
    shares = [sum(one > 1e-9 for one in of_case) / len(of_case) for of_case in pairs]
    yield CardMeasure(metric.name, "flip_rate", share(sum(shares), len(shares)))
    spread = np.array([sum(of_case) / len(of_case) for of_case in pairs])
    yield CardMeasure(metric.name, "spread", _mean(spread, judged.seed))


def _mean(values: np.ndarray, seed: int) -> Estimate:
    found = bootstrap(values, seed)
    if found is None:
        return Estimate(None, reason="there is no case")
    return Estimate(found.mean, found.low, found.high, len(values))


# Labels ----------------------------------------------------------------------------------------------------


def _labelled(judged: CalibrationJudgements, metric: JudgedMetric) -> Iterator[CardMeasure]:
    labelled = [one for one in judged.trials.values() if metric.name in one.labels]
    n = len(labelled)
    if not n:
        none = Estimate(0.0, reason="uncalibrated: there are no labelled cases of it")
        yield CardMeasure(metric.name, "labels", none)
        return
    scored = [(one.labels[metric.name], judged.score(one.trial_id, metric)) for one in labelled]
    pairs = [(label, value) for label, value in scored if value is not None]
    missing = f"{n - len(pairs)} of {n} labelled cases have no value" if len(pairs) < n else None
    yield CardMeasure(metric.name, "labels", Estimate(float(n), n=n, reason=missing))
    good = np.array([label.good for label, _ in pairs], np.bool_)
    grades = np.array([label.grade for label, _ in pairs], np.float64)
    values = turned(np.array([value for _, value in pairs], np.float64), metric)
    shares = shares_of_range(values, metric)
    sides = shares >= 0.5
    auc = roc_auc(good, values)
    yield CardMeasure(metric.name, "auc", auc)
    right = share(int((good == sides).sum()), len(good))
    yield CardMeasure(metric.name, "accuracy", accuracy(right, auc, metric))
    yield CardMeasure(metric.name, "kappa", cohens_kappa(good.astype(np.float64), sides.astype(np.float64)))
    levels = np.unique(grades)
    if 2 < len(levels) <= MOST_LEVELS:
        nearest = levels[np.abs(shares[:, None] - levels[None, :]).argmin(axis=1)]
        yield CardMeasure(metric.name, "kappa", cohens_kappa(grades, nearest, "quadratic"), "quadratic")
    yield CardMeasure(metric.name, "tau", kendall(grades, values))


def turned(values: Floats, metric: JudgedMetric) -> Floats:
    return values if metric.higher_is_better else -values


def shares_of_range(values: Floats, metric: JudgedMetric) -> Floats:
    worst, best = metric.bounds if metric.higher_is_better else (-metric.bounds[1], -metric.bounds[0])
    return np.asarray((values - worst) / (best - worst))


def is_coin(auc: Estimate) -> bool:
    return auc.low is None or auc.low <= 0.5


def accuracy(right: Estimate, auc: Estimate, metric: JudgedMetric) -> Estimate:
    """Return the share of cases on the right side of the middle of the judge's range; say that threshold.

    There is none for a judge that is a coin by its AUC: one that calls all cases good is right of most of
        them.
    """
    if auc.value is None:
        return Estimate(None, n=auc.n, reason=f"no AUC can be computed, so it may be a coin: {auc.reason}")
    if is_coin(auc):
        ends = f" [{auc.low:.3f}-{auc.high:.3f}]" if auc.low is not None else f" ({auc.reason})"
        reason = f"by its AUC, {auc.value:.3f}{ends}, it is no better than chance"
        return Estimate(None, n=auc.n, reason=reason)
    side = "from" if metric.higher_is_better else "up to"
    middle = sum(metric.bounds) / 2
    return right._replace(reason=f"good {side} {middle:g}, the middle of its range")


# Mutations -------------------------------------------------------------------------------------------------


def _pairs(
    judged: CalibrationJudgements, metric: JudgedMetric, kind: str
) -> tuple[list[tuple[float, float]], int]:
    sign = 1 if metric.higher_is_better else -1
    found, without = [], 0
    for trial in judged.trials.values():
        if trial.kind == kind and trial.of is not None:
            before, after = judged.score(trial.of, metric), judged.score(trial.trial_id, metric)
            if before is None or after is None:
                without += 1
            else:
                found.append((sign * before, sign * after))
    return found, without


def _caught(
    judged: CalibrationJudgements, metric: JudgedMetric, unmade: Mapping[str, Sequence[str]]
) -> Iterator[CardMeasure]:
    if not unmade and not any(one.role == "worse" for one in judged.trials.values()):
        return
    width = metric.bounds[1] - metric.bounds[0]
    floor = metric.bounds[0] if metric.higher_is_better else -metric.bounds[1]
    total: Counter[str] = Counter()
    for kind, mutation in MUTATIONS.items():
        if mutation.role != "worse" or not mutation.moves(metric):
            continue
        found, without = _pairs(judged, metric, kind)
        pairs = [(before, after) for before, after in found if before - floor > ALIKE * width]
        lower = sum(before - after > ALIKE * width for before, after in pairs)
        tied = sum(abs(before - after) <= ALIKE * width for before, after in pairs)
        total += Counter(lower=lower, tied=tied, n=len(pairs))
        reason = _why(len(found) - len(pairs), without, unmade.get(kind, ()))
        yield CardMeasure(metric.name, "caught", _share(lower, len(pairs), reason), kind)
        yield CardMeasure(metric.name, "tied", _share(tied, len(pairs), reason), kind)
    if total["n"]:
        yield CardMeasure(metric.name, "caught", _share(total["lower"], total["n"], None))
        yield CardMeasure(metric.name, "tied", _share(total["tied"], total["n"], None))


def _why(at_floor: int, without: int, unmade: Sequence[str]) -> str | None:
    parts = []
    if at_floor:
        parts.append(f"{at_floor} of no value to lose")
    if without:
        parts.append(f"{without} without a judgement")
    if unmade:
        why, _ = Counter(unmade).most_common(1)[0]
        parts.append(f"{len(unmade)} not made: {why}")
    return "; ".join(parts) or None


def _share(hits: int, n: int, reason: str | None) -> Estimate:
    return share(hits, n)._replace(reason=reason if n else reason or "no answer was made worse in this way")


def _controls(
    judged: CalibrationJudgements, metric: JudgedMetric, unmade: Mapping[str, Sequence[str]]
) -> Iterator[CardMeasure]:
    width = metric.bounds[1] - metric.bounds[0]
    if preferred := judged.preferences(metric):
        yield CardMeasure(metric.name, "position_bias", _mean(np.array(preferred), judged.seed), "places")
    for kind, mutation in MUTATIONS.items():
        if mutation.role == "worse" or not mutation.moves(metric):
            continue
        pairs, without = _pairs(judged, metric, kind)
        if not pairs and not without:
            continue
        reason = _why(0, without, unmade.get(kind, ()))
        if mutation.role == "same":
            lower = sum(before - after > ALIKE * width for before, after in pairs)
            yield CardMeasure(metric.name, "false_alarm", _share(lower, len(pairs), reason))
        elif kind == "order":
            moved = sum(abs(before - after) > ALIKE * width for before, after in pairs)
            yield CardMeasure(metric.name, "position_bias", _share(moved, len(pairs), reason), "order")
        else:
            # Of a fair judge the two add up to the whole; more: it prefers the answer that comes first.
            whole = sum(metric.bounds) if metric.higher_is_better else -sum(metric.bounds)
            first = np.array([(before + after - whole) / width for before, after in pairs])
            yield CardMeasure(metric.name, "position_bias", _mean(first, judged.seed), "sides")


def _length(judged: CalibrationJudgements, metric: JudgedMetric) -> Iterator[CardMeasure]:
    if "answer" not in metric.needs:
        return
    sign = 1 if metric.higher_is_better else -1
    labelled = [
        (sign * value, float(len(one.case.answer or "")), one.labels[metric.name].grade)
        for one in judged.trials.values()
        if metric.name in one.labels and (value := judged.score(one.trial_id, metric)) is not None
    ]
    if labelled:
        columns = [np.array(column, np.float64) for column in zip(*labelled, strict=True)]
        yield CardMeasure(metric.name, "length_bias", spearman(*columns), "equal labels")
    found = judged.answer_lengths(metric)
    values = np.array([sign * value for value, _ in found], np.float64)
    lengths = np.array([length for _, length in found], np.float64)
    plain = spearman(values, lengths)
    if plain.value is not None:
        plain = plain._replace(reason="longer answers may be better ones: labels would tell")
    yield CardMeasure(metric.name, "length_bias", plain)


# Costs -----------------------------------------------------------------------------------------------------


def _costs(judged: CalibrationJudgements) -> Iterator[CardMeasure]:
    cases = judged.judged_cases()
    for name in ("calls", "prompt_tokens", "completion_tokens", "seconds", "usd"):
        yield CardMeasure(None, f"{name}_per_1000", _per(cases, name))


def _per(cases: Sequence[Sequence[Row]], name: str) -> Estimate:
    sums = [sum(known) for rows in cases if (known := [row[name] for row in rows if row[name] is not None])]
    if not sums:
        return Estimate(None, n=len(cases), reason="nothing was asked" if not cases else "it is not known")
    missing = len(cases) - len(sums)
    reason = f"not known of {missing} of {len(cases)} cases" if missing else None
    return Estimate(PER * sum(sums) / len(sums), n=len(sums), reason=reason)


FEWEST = 20
"""Scored answers, below which a metric stays uncalibrated: of ten good ones and ten bad ones an area of 0.75
is just told from that of a coin (DeLong)."""
Place = tuple[str, str]  # key of a cell and replicate, id of a question


class Rated(NamedTuple):
    """Human ratings by one criterion, named `people.RUBRIC[.CRITERION]`; values, items: score and item of
    each place.

    against: the cell, without the study, that answers are compared with; own: Krippendorff's alpha of
        annotators
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
    questions = dict(_given(annotations).select("item_id", "question_id").iter_rows())
    valued = counted.filter((pl.col("status") == "ok") & pl.col("value").is_not_null())
    found = []
    for name, rated in _rated(rubrics, annotations):
        held = overlap(ratings_of(valued, name, rated.criterion), questions, clusters)
        own = krippendorffs_alpha(held.items, held.values, rubrics[name].level, seed, held.clusters)
        found.append(rated._replace(people=len(held.people), own=own))
    return found


def scored_by(rubrics: Mapping[str, Rubric], annotations: pl.DataFrame) -> list[Rated]:
    return [rated for _, rated in _rated(rubrics, annotations)]


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
    right = over_clusters(lambda a, b: share(int((a == b).sum()), len(a)), good, sides, drawn, (0.0, 1.0))
    yield CardMeasure(metric.name, "accuracy", accuracy(right, auc, metric), name)
    kappa = over_clusters(_kappa(rated.criterion), scores, stretched, drawn)
    yield CardMeasure(metric.name, "kappa", kappa, name)
    yield CardMeasure(metric.name, "tau", over_clusters(kendall, scores, values, drawn), name)


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


def _rated(rubrics: Mapping[str, Rubric], annotations: pl.DataFrame) -> Iterator[tuple[str, Rated]]:
    """Yield the name of a rubric and the ratings by one of its criteria that has any."""
    given = _given(annotations)
    for name, rubric in rubrics.items():
        for criterion in rubric.criteria:
            rows = ratings_of(given, name, criterion).select("cell", "question_id", "value", "item_id").rows()
            values = {(cell, question): value for cell, question, value, _ in rows}
            items = {(cell, question): item for cell, question, _, item in rows}
            if rows:
                title = metric_name(name, criterion.name)
                yield name, Rated(title, criterion, rubric.against, values, items)
