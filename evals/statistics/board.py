"""The rows of a leaderboard: means by cell and metric, compared on the same questions only.

A question's value is the mean over replicates, so that more replicates make no difference look surer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from rag_assay.evals.metrics.contract import Metric
from rag_assay.evals.statistics.bootstrap import Interval, intervals
from rag_assay.evals.statistics.comparison import (
    UNCOMPARED,
    Valued,
    compare_cells,
    leader_of,
    margin_of,
    posterior_columns,
    primary_of,
    table_of,
    tie_groups,
    with_ranks,
)
from rag_assay.evals.statistics.question_clusters import ALONE, Clustering
from rag_assay.evals.statistics.resampling import EQUAL, Floats
from rag_assay.evals.study.cells import Cell
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.parquet import frame
from rag_assay.warehouse.schemas import SCORES, Status


def front(costs: Sequence[float], values: Sequence[float]) -> list[int]:
    """Return which points no other beats, in order of rising cost; of equal points the first stands for all.

    >>> front([1.0, 2.0, 2.0, 3.0], [0.5, 0.4, 0.7, 0.7])
    [0, 2]
    """
    found: list[int] = []
    for at in sorted(range(len(costs)), key=lambda at: (costs[at], -values[at], at)):
        if not found or values[at] > values[found[-1]]:
            found.append(at)
    return found


class Components(NamedTuple):
    """Standard deviations of a cell's values."""

    questions: float
    replicates: float


def components(table: Floats) -> Components | None:
    """Split the variance of values into that between questions and that between replicates of a question.

    The one-way random effects model by the method of moments (Searle, Casella and McCulloch, Variance
    Components, 1992, ch. 3). A mean over k questions of R replicates has the variance (questions^2 +
    replicates^2 / R) / k: more replicates make only the second part smaller.

    table: values, shape (questions, replicates); NaN where a replicate has none

    Returns:
        None where there are fewer than two questions, or none has two values.

    >>> components(np.array([[1.0, 3.0], [5.0, 7.0]])).replicates ** 2  # within: ((1 - 2)^2 + …) / 2
    2.0000000000000004
    """
    there = ~np.isnan(table)
    table, there = table[there.any(axis=1)], there[there.any(axis=1)]
    n = there.sum(axis=1).astype(np.float64)
    if len(n) < 2 or n.max(initial=0) < 2:
        return None
    filled, total = np.where(there, table, 0.0), n.sum()
    means = filled.sum(axis=1) / n
    within = float((np.where(there, table - means[:, None], 0.0) ** 2).sum() / (total - len(n)))
    between = float((n * (means - filled.sum() / total) ** 2).sum() / (len(n) - 1))
    times = (total - (n**2).sum() / total) / (len(n) - 1)
    size = float((filled**2).max(initial=0.0))
    parts = ((between - within) / times, within)
    return Components(*(0.0 if one <= EQUAL * size else float(np.sqrt(one)) for one in parts))


Answered = Callable[[Cell, Iterable[str]], float | None]
"""(cell, question ids) -> the share of them that the cell answered; None without a generator."""
_OF_RANKINGS = ("chunking", "embedder", "retriever")
Scores = Mapping[Cell, pl.DataFrame]  # of each replicate of each cell, schemas.SCORES


def board_rows(
    study: Study, scores: Scores, share: Answered, clusters: Clustering = ALONE
) -> list[dict[str, Any]]:
    metrics = [study.metric(name) for name in study.measured]
    named = (name for rows in scores.values() for name in rows["metric"])
    primary = study.metric(primary_of(study.measured, named))
    cells: dict[Cell, list[pl.DataFrame]] = {}
    for one, found in scores.items():
        cells.setdefault(replace(one, replicate=1), []).append(found)
    rows: list[dict[str, Any]] = []
    for subset, ids in subsets(scores).items():
        inside = {cell: found for cell, found in cells.items() if _is_of(cell, subset)}
        dealt = {cell.key: share(cell, ids) for cell in inside}
        valued = {
            metric.name: _valued(study, metric, subset, ids, inside, dealt, clusters) for metric in metrics
        }
        ceilings = {cell.key for cell in inside if study.reads(cell.generator) == "evidence"}
        rows += _compared(study, valued, primary, ceilings, clusters)
    return rows


def _compared(
    study: Study, valued: dict[str, Valued], primary: Metric, ceilings: set[str], clusters: Clustering
) -> list[dict[str, Any]]:
    ranked = with_ranks([row for found in valued.values() for row, _ in found], primary, ceilings)
    ranks = {row["cell"]: row["rank"] for row in ranked}
    of_answers = (metric for name in valued if (metric := study.metric(name)).kind == "answer")
    leader = leader_of(ranked, primary, next(of_answers, None) if primary.kind == "retrieval" else None)
    able = {cell for cell, rank in ranks.items() if rank is not None}
    with_rank = {
        name: [({**row, "rank": ranks[row["cell"]]}, values) for row, values in found]
        for name, found in valued.items()
    }
    margins = {name: margin_of(study.metric(name), study.margin, primary) for name in with_rank}
    done = {
        name: compare_cells(found, leader, able, study.seed, clusters, margins[name])
        for name, found in with_rank.items()
    }
    first, margin = with_rank[primary.name], margins[primary.name]
    groups = tie_groups(done[primary.name], first, study.seed, clusters, margin)
    found = []
    for name, rows in done.items():
        metric = study.metric(name)
        odds = posterior_columns(with_rank[name], able, metric, margins[name], study.seed, clusters)
        found += [{**row, **odds.get(row["cell"], {})} for row in rows]
    best = {row["cell"]: row["p_best"] for row in found if row["metric"] == primary.name}
    return [{**row, "tie_group": groups.get(row["cell"]), "p_best": best.get(row["cell"])} for row in found]


def not_run(cell: Cell, run: Scores) -> pl.DataFrame:
    """Return scores without values for a failed cell, so that it stays on the board with coverage 0."""
    like = [rows for other, rows in run.items() if other.sample == cell.sample]
    scored = pl.concat(like) if like else frame([], SCORES)
    return scored.unique(["question_id", "metric"]).with_columns(
        pl.lit(str(Status.NOT_RUN)).alias("status"),
        pl.lit(None, pl.Float64).alias("value"),
        pl.lit("what the cell needs failed").alias("reason"),
    )


def subsets(scores: Scores) -> dict[str, list[str]]:
    """Return subset name -> question ids: all questions, and every sample."""
    everything: dict[str, None] = {}
    found: dict[str, list[str]] = {}
    for cell, rows in scores.items():
        ids = list(dict.fromkeys(rows["question_id"]))
        if cell.sample is None:
            everything.update(dict.fromkeys(ids))
        else:
            found[cell.subset] = sorted(set(found.get(cell.subset, [])) | set(ids))
    return ({"all": sorted(everything)} if everything else {}) | found


def _is_of(cell: Cell, subset: str) -> bool:
    return cell.sample is None or (subset != "all" and cell.subset == subset)


def _valued(
    study: Study,
    metric: Metric,
    subset: str,
    ids: list[str],
    cells: Mapping[Cell, Sequence[pl.DataFrame]],
    dealt: Mapping[str, float | None],
    clusters: Clustering,
) -> Valued:
    wanted = (pl.col("metric") == metric.name) & pl.col("question_id").is_in(ids)
    found: dict[Cell, tuple[list[pl.DataFrame], pl.DataFrame]] = {}
    for cell, frames in cells.items():
        replicates = [rows.filter(wanted).sort("question_id") for rows in frames]
        if sum(map(len, replicates)):
            found[cell] = replicates, question_means(replicates)
    values = {
        cell.key: dict(means.drop_nulls("value").select("question_id", "value").iter_rows())
        for cell, (_, means) in found.items()
    }
    questions = sorted({name for _, means in found.values() for name in means["question_id"]})
    drawn = clusters.codes(questions)
    of_cells = intervals(table_of(values, list(values), questions), study.seed, drawn, metric.bounds)
    count = len(questions) if drawn is None else int(drawn.max()) + 1
    valued = []
    for (cell, (replicates, means)), interval in zip(found.items(), of_cells, strict=True):
        row = _row(study, cell, metric, subset, replicates, interval)
        row |= {"n": len(means), "answered": dealt[cell.key], "clusters": count}
        valued.append((row, values[cell.key]))
    return valued


def question_means(replicates: Sequence[pl.DataFrame]) -> pl.DataFrame:
    if len(replicates) == 1:
        return replicates[0].select("question_id", "value")
    together = pl.concat([rows.select("question_id", "value") for rows in replicates])
    return together.group_by("question_id").agg(pl.col("value").mean()).sort("question_id")


def spread(replicates: Sequence[pl.DataFrame]) -> tuple[float | None, float | None]:
    if len(replicates) == 1:
        return None, None
    numbered = enumerate(replicates)
    together = pl.concat([one.select("question_id", "value", replicate=pl.lit(n)) for n, one in numbered])
    valued = pl.col("value").is_not_null().all().over("question_id")
    whole = together.filter(valued & (pl.len().over("question_id") == len(replicates)))
    means = whole.sort("question_id").group_by("replicate").agg(pl.col("value").mean())["value"]
    return (float(means.min()), float(means.max())) if len(means) else (None, None)  # type: ignore[arg-type]


def noise(replicates: Sequence[pl.DataFrame]) -> Components | None:
    if len(replicates) == 1:
        return None
    values = [dict(rows.select("question_id", "value").iter_rows()) for rows in replicates]
    questions = sorted({name for found in values for name in found})
    table = [[found.get(name) for found in values] for name in questions]
    return components(np.array(table, np.float64))


def _row(
    study: Study,
    cell: Cell,
    metric: Metric,
    subset: str,
    replicates: Sequence[pl.DataFrame],
    interval: Interval | None,
) -> dict[str, Any]:
    # A replicate without a value is missing, though others of its question have one.
    all_values = np.concatenate([rows["value"].drop_nulls().to_numpy() for rows in replicates])
    values = all_values.astype(np.float64)
    n_asked = sum(map(len, replicates))
    lowest, highest = (_bounded(values, n_asked - len(values), bound) for bound in metric.bounds)
    least, most = spread(replicates)
    sd = noise(replicates)
    return {
        **dict.fromkeys(("cell_id", "n", "rank", "answered", "tie_group", "p_best", "clusters")),
        "study": study.study,
        "subset": subset,
        "cell": cell.key,
        "metric": metric.name,
        **{axis: getattr(cell, axis) if cell.has_axes else None for axis in _OF_RANKINGS},
        "generator": cell.generator,
        "value": interval.mean if interval else None,
        "coverage": len(values) / n_asked,
        "low": _within(metric, interval.low) if interval else None,
        "high": _within(metric, interval.high) if interval else None,
        "worst": lowest if metric.higher_is_better else highest,
        "best": highest if metric.higher_is_better else lowest,
        **UNCOMPARED,
        "replicates": len(replicates),
        "replicate_low": least,
        "replicate_high": most,
        "question_sd": sd.questions if sd else None,
        "replicate_sd": sd.replicates if sd else None,
    }


def _within(metric: Metric, end: float | None) -> float | None:
    if end is None:
        return None
    lowest, highest = metric.bounds
    return min(max(end, -np.inf if lowest is None else lowest), np.inf if highest is None else highest)


def _bounded(values: np.ndarray, missing: int, bound: float | None) -> float | None:
    """Return the mean if every missing value were at the metric's bound, if there is one."""
    if missing and bound is None:
        return None
    if not missing:
        return float(values.mean()) if len(values) else None
    return float((values.sum() + missing * float(bound or 0.0)) / (len(values) + missing))
