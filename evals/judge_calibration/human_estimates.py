"""Means of human ratings by cell, rubric and judge: rows of `schemas.HUMAN_ESTIMATES`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from rag_assay.evals.metrics.contract import Metric
from rag_assay.evals.rubrics.rubric import PEOPLE
from rag_assay.evals.statistics.question_clusters import Clustering
from rag_assay.evals.statistics.resampling import Floats
from rag_assay.evals.study.study import Study

if TYPE_CHECKING:
    from rag_assay.evals.statistics.clusters import Codes
    from rag_assay.evals.statistics.prediction_powered import Items, Mean, Powered

Row = dict[str, Any]
WANTED = 0.05
"""Half width of the interval that is wanted, as a share of the scale, unless a study says another."""
_STEPS = 60  # halvings until a factor is as near as a float can be
Flags: TypeAlias = "npt.NDArray[np.bool_]"


def judging_metrics(study: Study) -> list[Metric]:
    found = (study.metric(name) for name in study.measured if name.partition(".")[0] != PEOPLE)
    return [one for one in found if one.kind == "answer" and one.higher_is_better]


def wanted_width(study: Study) -> float:
    return study.annotation.precision or WANTED


def estimate_rows(
    study: Study,
    annotations: pl.DataFrame,
    scores: Mapping[str, pl.DataFrame],
    clusters: Clustering,
    sooner: Mapping[str, float] | None = None,
) -> list[Row]:
    from rag_assay.evals.judge_calibration.agreement import ratings_of

    names = {cell.key: cell.name for cell in study.runs()}
    metrics = judging_metrics(study)
    judged = _judged(scores, [one.name for one in metrics])
    known = annotations.filter(pl.col("cell").is_in(list(names)))
    found: list[Row] = []
    for rubric_name, rubric in study.rubrics.items():
        for criterion in rubric.criteria:
            rows = ratings_of(known, rubric_name, criterion)
            if (rows["annotators"] > 0).any():
                scored = _scored(rows, names, criterion.bounds, clusters, sooner or {})
                place = {"study": study.study, "rubric": rubric_name, "criterion": criterion.name}
                for metric in metrics:
                    of_metric = _rows(scored, metric, judged[metric.name], wanted_width(study))
                    found += [{**place, **row} for row in of_metric]
    return found


@dataclass(frozen=True)
class _Scored:
    """What people scored by one criterion: (key of cell and replicate, question id) of each answer;
    ``left_out``: not drawn by the queue.
    """

    cells: list[str]
    places: list[tuple[str, str]]
    scores: Floats
    drawn: Floats
    left_out: Floats
    clusters: Codes
    bounds: tuple[float, float]

    def of(self, cell: str | None) -> Flags:
        return np.array([cell in (None, name) for name in self.cells], bool)

    def items(self, judged: Floats, some: Flags) -> Items:
        from rag_assay.evals.statistics.prediction_powered import Items

        scores, drawn, clusters = self.scores[some], self.drawn[some], self.clusters[some]
        return Items(scores, judged[some], self.bounds, drawn, clusters, int(self.clusters.max()) + 1)


def _scored(
    rows: pl.DataFrame,
    names: Mapping[str, str],
    bounds: tuple[float, float],
    clusters: Clustering,
    sooner: Mapping[str, float],
) -> _Scored:
    from rag_assay.evals.statistics.clusters import codes

    rows = rows.sort("cell", "question_id")
    columns = (rows[name].cast(pl.Float64) for name in ("value", "probability"))
    scores, drawn = (column.fill_null(np.nan).to_numpy() for column in columns)
    ties = ~np.isnan(scores) & (rows["annotators"] == 0).to_numpy()
    there = ~np.isnan(scores) & ~ties
    by_queue = bool((there & ~np.isnan(drawn)).any())
    left_out = there & np.isnan(drawn) if by_queue and not (there | ties).all() else np.zeros(len(rows), bool)
    weights = np.array([sooner.get(item or "", np.nan) for item in rows["item_id"]], np.float64)
    questions = rows["question_id"].to_list()
    return _Scored(
        [names[key] for key in rows["cell"]],
        list(zip(rows["cell"].to_list(), questions, strict=True)),
        np.where(left_out, np.nan, scores),
        _likely(drawn if by_queue else np.ones(len(rows)), there & ~left_out, ties, weights),
        left_out.astype(np.float64),
        codes([clusters.of.get(question, question) for question in questions]),
        bounds,
    )


def _likely(drawn: Floats, there: Flags, ties: Flags, weights: Floats) -> Floats:
    able = ~ties & ~np.isnan(drawn)
    n = int(there.sum())
    if np.isnan(weights).all() or n >= able.sum():
        share = n / max(int(able.sum()), 1)
        return np.where(ties, 1.0, np.where(np.isnan(drawn), 1.0, drawn) * share)
    heavy = np.where(np.isnan(weights), np.nanmean(weights), weights)
    low, high = 0.0, n / float(heavy[~ties].min())
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if np.minimum(middle * heavy[~ties], 1).sum() < n else (low, middle)
    return np.where(ties, 1.0, np.minimum(high * heavy, 1.0))


def _judged(
    scores: Mapping[str, pl.DataFrame], metrics: Iterable[str]
) -> dict[str, dict[tuple[str, str], float]]:
    found: dict[str, dict[tuple[str, str], float]] = {name: {} for name in metrics}
    for key, rows in scores.items():
        wanted = rows.filter(pl.col("metric").is_in(list(found)) & pl.col("value").is_not_null())
        for question, metric, value in wanted.select("question_id", "metric", "value").iter_rows():
            found[metric][key, question] = value
    return found


def _rows(
    scored: _Scored, metric: Metric, judged: Mapping[tuple[str, str], float], wanted: float
) -> list[Row]:
    from rag_assay.evals.statistics.prediction_powered import estimate_mean

    values = np.array([judged.get(place, np.nan) for place in scored.places], np.float64)
    cells: list[str | None] = [None, *dict.fromkeys(scored.cells)]
    found = {cell: estimate_mean(scored.items(values, scored.of(cell))) for cell in cells}
    leader = _leader({cell: one for cell, one in found.items() if cell is not None})
    rows = []
    for cell, one in found.items():
        row = {"cell": cell, "metric": metric.name} | _means(scored, metric, values, cell)
        rows.append(row | _of_powered(one, scored, wanted) | _apart(found, cell, leader, scored.bounds))
    return rows


def _means(scored: _Scored, metric: Metric, values: Floats, cell: str | None) -> Row:
    from rag_assay.evals.statistics.prediction_powered import estimate_mean

    some = scored.of(cell)
    low, high = metric.bounds
    least, most = scored.bounds
    judgements, left_out = (~np.isnan(values[some])).sum(), scored.left_out[some].sum()
    row: Row = {"judgements": int(judgements), "left_out": int(left_out)}
    if low is None or high is None or not row["judgements"]:
        return {**row, **dict.fromkeys(("judged", "judged_low", "judged_high"))}
    stretched = least + (values - low) / (high - low) * (most - least)
    there = some & ~np.isnan(values)
    items = scored.items(values, there)._replace(scores=stretched[there], drawn=None)
    alone = estimate_mean(items, power=0.0).people
    return {**row, **_ends("judged", alone)}


def _ends(name: str, mean: Mean) -> Row:
    return {name: mean.value, f"{name}_low": mean.low, f"{name}_high": mean.high}


def _of_powered(found: Powered, scored: _Scored, wanted: float) -> Row:
    people, combined = found.people, found.combined
    reason = None if combined.low is not None else "scores of one question alone have no interval"
    if combined.value is None:
        reason = "there are no ratings of its answers"
    half = wanted * (scored.bounds[1] - scored.bounds[0])
    return {
        **_ends("people", people),
        **_ends("combined", combined),
        "items": combined.items,
        "labels": combined.labels,
        "width": found.width,
        "wanted": half,
        "share": combined.share if combined.value is not None else None,
        "saved": found.saved if combined.low is not None else None,
        "labels_needed": found.labels_for(half),
        "reason": reason,
    }


def _leader(found: Mapping[str, Powered]) -> str | None:
    able = [(one.combined.value, cell) for cell, one in found.items() if one.combined.low is not None]
    return min(((-(value or 0.0), cell) for value, cell in able), default=(0.0, None))[1]


def _apart(
    found: Mapping[str | None, Powered], cell: str | None, leader: str | None, bounds: tuple[float, float]
) -> Row:
    from rag_assay.evals.statistics.prediction_powered import difference

    names = ("leader", "difference", "difference_low", "difference_high")
    if cell is None or leader is None or found[cell].combined.low is None:
        return dict.fromkeys(names)
    if cell == leader:
        return dict(zip(names, (leader, 0.0, None, None), strict=True))
    others = sum(one is not None and mean.combined.low is not None for one, mean in found.items()) - 1
    apart = difference(found[cell].combined, found[leader].combined, bounds, max(others, 1))
    return dict(zip(names, (leader, apart.value, apart.low, apart.high), strict=True))
