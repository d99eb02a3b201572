"""Ranks cells and tests which of them differ from the leader."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import polars as pl

from rag_assay.evals.metrics.contract import Metric
from rag_assay.evals.statistics.clusters import Codes, effective, sum_clusters
from rag_assay.evals.statistics.question_clusters import ALONE, Clustering
from rag_assay.evals.statistics.resampling import EQUAL, Floats
from rag_assay.evals.statistics.significance import RESAMPLES, Contrasts, contrasts
from rag_assay.warehouse.schemas import MIN_COVERAGE, Status

DRAWS = 4_000
_SCALE = 0.05  # of the prior of tau, as a share of the range
_CONTRASTS = 8  # more contrasts of near equals add no degrees of freedom to the noise that they share
_COMPARED = 200  # best cells by their means: those behind them cannot be the best, and would cost most
_CONFIDENCE = 0.95


class Posterior(NamedTuple):
    """What is expected of each cell, as arrays of shape (cells,).

    p_best: chance of being the best one; equal columns share it
    expected_loss: of the leader's true mean less the cell's; 0 of the leader, never below 0 of another one
    p_loss: chance that the cell loses more than the margin against the leader; NaN without a margin
    bound: lower bound of the cell's mean less the best other one's, 95 % for all cells at once (Hsu); NaN
        where there are too few clusters
    """

    p_best: Floats
    expected_loss: Floats
    p_loss: Floats
    bound: Floats


def posterior(
    table: Floats, seed: int, margin: float, width: float, clusters: Codes | None = None
) -> Posterior:
    """Compare the means of cells on further questions like these.

    The means less their mean are y ~ N(mu, w s^2), mu ~ N(0, tau^2), in the K - 1 contrasts of K cells. s^2
    is the variance of clusters' residuals, one for all cells; w allows for its degrees of freedom; tau has a
    prior with density 1 / (1 + (tau / 0.05)^2). `make bench-verdict` measures how the chances hold.

    table: values, the larger the better, shape (questions, cells); NaN where a cell has none
    margin: a loss that matters, in the metric's unit; NaN: none is stated

    >>> values = np.array([[0.9, 0.2, 0.2], [0.8, 0.1, 0.1], [0.9, 0.3, 0.3], [0.9, 0.2, 0.2]] * 4)
    >>> found = posterior(values, seed=7, margin=0.02, width=1.0)
    >>> found.p_best.round(2).tolist(), found.expected_loss.round(2).tolist(), found.p_loss.tolist()
    ([1.0, 0.0, 0.0], [0.0, 0.67, 0.67], [0.0, 1.0, 1.0])
    """
    filled = np.nan_to_num(table, nan=np.inf).T
    unique, which, shared = np.unique(filled, axis=0, return_inverse=True, return_counts=True)
    which = which.ravel()
    columns = np.where(np.isinf(unique), np.nan, unique).T
    means, rows = _cluster_rows(columns, clusters)
    groups, cells = rows.shape
    leader = int(np.nanargmax(means))
    if cells < 2:
        alone = np.zeros(table.shape[1])
        return Posterior(np.full(table.shape[1], 1.0 / table.shape[1]), alone, alone, alone)
    sizes = np.arange(len(table)) if clusters is None else clusters
    freedom = max(effective(sizes) - 1.0, 1.0)
    mu = _draws(means - means.mean(), rows, freedom, np.random.default_rng(seed), width)
    first = mu >= mu.max(axis=1, keepdims=True)
    best = (first / first.sum(axis=1, keepdims=True)).mean(axis=0)
    against = mu[:, [leader]] - mu
    loss = np.maximum(against.mean(axis=0), 0.0)
    loss[leader] = 0.0
    bound = _bounds(means, rows, freedom, np.random.default_rng(seed + 1))
    if groups < 2:
        bound = np.full(cells, np.nan)
    risk = (against > margin).mean(axis=0) if np.isfinite(margin) else np.full(cells, np.nan)
    return Posterior(*(column[which] for column in (best / shared, loss, risk, bound)))


def _cluster_rows(table: Floats, clusters: Codes | None) -> tuple[Floats, Floats]:
    """Return the means of the columns, and rows that show how they may vary: shape (clusters, cells).

    The rows are sums of residuals, so that clusters of unequal sizes have their weight. A missing value has
    none.
    """
    centred = table - np.nanmean(table, axis=1, keepdims=True)
    there = ~np.isnan(centred)
    n = np.maximum(there.sum(axis=0), 1)
    means = np.where(there, centred, 0.0).sum(axis=0) / n
    residual = sum_clusters(np.where(there, centred - means, 0.0), clusters)
    rows = residual * (len(residual) / n)
    return means, rows - rows.mean(axis=1, keepdims=True)


def _draws(means: Floats, rows: Floats, freedom: float, chance: np.random.Generator, width: float) -> Floats:
    """Draw true means of the cells, less their mean: shape (draws, cells)."""
    from scipy.special import chdtri

    groups, cells = rows.shape
    noise = max(float((rows**2).sum() / ((groups - 1 or 1) * (cells - 1) * groups)), EQUAL * width**2)
    nu = freedom * min(cells - 1, _CONTRASTS)
    w = nu / chdtri(nu, (np.arange(9) + 0.5) / 9)
    shares = np.concatenate([[0.0], np.geomspace(0.001, 0.5, 28)])  # true spread, as a share of the range
    tau = shares * width
    prior = np.gradient(shares) / (1 + (shares / _SCALE) ** 2)
    variance = tau[:, None] ** 2 + w * noise
    misfit = (cells - 1) * np.log(variance) + float(means @ means) / variance
    chances = np.log(prior)[:, None] - 0.5 * misfit
    chances = np.exp(chances - chances.max()).ravel()
    drawn = chance.choice(len(chances), size=DRAWS, p=chances / chances.sum())
    spread = tau[drawn // len(w)] ** 2
    error = w[drawn % len(w)] * noise
    kept = (spread / (spread + error))[:, None]
    z = chance.standard_normal((DRAWS, cells))
    return kept * means + np.sqrt(kept * error[:, None]) * (z - z.mean(axis=1, keepdims=True))


def _bounds(means: Floats, rows: Floats, freedom: float, chance: np.random.Generator) -> Floats:
    """Return Hsu's simultaneous lower bounds of each mean less the best other one (JASA 1984, 1996).

    The covariance is shrunk to compound symmetry by the weight of Ledoit and Wolf (J. Multivariate Anal.
    2004).
    """
    groups = len(rows)
    order = np.argsort(-means, kind="stable")[:_COMPARED]
    y, cells = means[order], len(order)
    half, variances = _covariance(rows[:, order], groups)
    diagonal = np.diag(variances)
    s = np.sqrt(np.maximum(diagonal[:, None] + diagonal - 2 * variances, 1e-12 * diagonal.max() + 1e-300))
    z = chance.standard_normal((1_000, cells)) @ half.T
    z /= np.sqrt(chance.chisquare(freedom, 1_000) / freedom)[:, None]
    furthest = (((z[:, [j]] - z) / s[j]).max(axis=1) for j in range(cells))
    reach = np.array([np.quantile(one, _CONFIDENCE) * s[j] for j, one in enumerate(furthest)])
    np.fill_diagonal(reach, np.inf)
    upper = (y[:, None] - y + reach).min(axis=1)
    candidates = upper > 0
    found = np.full(len(means), -np.inf)
    for i in range(cells):
        others = candidates & (np.arange(cells) != i)
        gaps = y[i] - y[others] - reach[others, i]
        found[order[i]] = min(0.0, float(gaps.min())) if others.any() else 0.0
    return found


def _covariance(rows: Floats, groups: int) -> tuple[Floats, Floats]:
    cells = rows.shape[1]
    x = rows - rows.mean(axis=1, keepdims=True)
    raw = x.T @ x / max(groups - 1, 1)
    target = np.trace(raw) / (cells - 1) * (np.eye(cells) - 1 / cells)
    apart = float(((raw - target) ** 2).sum())
    biased = raw * ((groups - 1) / groups)
    noise = float(((x**2).sum(axis=1) ** 2).sum() / groups**2 - (biased**2).sum() / groups)
    weight = 1.0 if apart <= 0 else min(1.0, max(0.0, noise / apart))
    shrunk = ((1 - weight) * raw + weight * target) / groups
    values, vectors = np.linalg.eigh(shrunk)
    return vectors * np.sqrt(np.maximum(values, 0.0)), shrunk


Row = dict[str, Any]
Valued = list[tuple[Row, dict[str, float]]]
"""Rows of schemas.LEADERBOARD of one subset and metric, each with its values by question."""

UNCOMPARED: Row = dict.fromkeys(
    (
        *("leader", "difference", "difference_low", "difference_high", "p", "tied", "within_margin"),
        *("detectable", "questions_needed", "expected_loss", "p_loss", "bound"),
    )
)
FURTHER_RESAMPLES = 2_000  # of the tests between cells behind the first group: there may be many groups


def answered_share(
    answers: pl.DataFrame,
    answerable: Mapping[str, bool],
    questions: Iterable[str],
    *,
    said_nothing: bool = False,
) -> float:
    """Return the share of questions with an answer or a refusal, an empty retrieval being a refusal.

    A cell that refuses all questions, of which the documents answer some, has the share 0.
    """
    wanted = set(questions)
    dealt = {"answers": 0, "refusals": 0}
    missed = False
    for question, status, text in answers.select("question_id", "status", "answer").iter_rows():
        if question not in wanted:
            continue
        is_empty = status == Status.PARSE_FAILED and text is not None
        dealt["answers"] += (status == Status.OK and bool(text)) or (said_nothing and is_empty)
        refused = status in {Status.REFUSED, Status.NO_CONTEXT}
        dealt["refusals"] += refused
        missed |= refused and answerable.get(question, True)
    if not dealt["answers"] and missed:
        return 0.0
    return sum(dealt.values()) / len(wanted) if wanted else 0.0


def with_ranks(rows: list[Row], primary: Metric, ceilings: Container[str] = ()) -> list[Row]:
    """Rank the cells of each subset by the primary metric, equal values alike (1, 1, 3).

    Cells with too little coverage or too few answers get no rank.
    """
    sign = -1 if primary.higher_is_better else 1
    ranks: dict[tuple[str, str], int] = {}
    mine = [row for row in rows if row["metric"] == primary.name and is_able(row)]
    for subset in {row["subset"] for row in rows}:
        of_subset = (row for row in mine if row["subset"] == subset and row["cell"] not in ceilings)
        able = {row["cell"]: sign * row["value"] for row in of_subset}
        for cell, value in able.items():
            # Sums of the same numbers in another order differ in the last digits.
            lower = [one for one in able.values() if one < value]
            ranks[subset, cell] = 1 + sum(not math.isclose(one, value, rel_tol=1e-12) for one in lower)
    return [{**row, "rank": ranks.get((row["subset"], row["cell"]))} for row in rows]


def is_able(row: Row) -> bool:
    covered = row["value"] is not None and row["coverage"] >= MIN_COVERAGE
    return covered and (row["answered"] is None or row["answered"] >= MIN_COVERAGE)


def leader_of(rows: Sequence[Row], primary: Metric, second: Metric | None = None) -> str | None:
    """Return the leader of a subset, if any cell is able; ties go by the second metric, then by name."""
    sign = -1 if primary.higher_is_better else 1
    first = [row for row in rows if row["metric"] == primary.name and row["rank"] == 1]
    by = {row["cell"]: row["value"] for row in rows if second and row["metric"] == second.name}

    def order(row: Row) -> tuple[float, float, str]:
        value = by.get(row["cell"])
        if second is None or value is None:
            return sign * row["value"], math.inf, row["cell"]
        return sign * row["value"], -value if second.higher_is_better else value, row["cell"]

    return min(map(order, first), default=(0.0, 0.0, None))[2]


def compare_cells(
    valued: Valued,
    leader: str | None,
    ranked: set[str],
    seed: int,
    clusters: Clustering = ALONE,
    margin: float | None = None,
) -> list[Row]:
    """Add to rows of one subset and metric how the cells differ from the leader on common questions.

    Cells with a rank and enough values are one family of comparisons; those that share every value are one
    comparison (`evals.statistics.significance`).
    """
    able = {row["cell"]: values for row, values in valued if row["cell"] in ranked and is_able(row)}
    if leader is None or leader not in able:
        return [{**row, **UNCOMPARED} for row, _ in valued]
    others = [cell for cell in able if cell != leader]
    results: dict[str, Row] = {leader: {**UNCOMPARED, "leader": leader, "difference": 0.0, "tied": True}}
    found, which = _contrasts(able, leader, others, seed, clusters, margin)
    for cell, at in zip(others, which, strict=True):
        needed, apart = finite_or_none(found.needed[at]), found.differences
        figures = {"difference": apart.mean, "difference_low": apart.low, "difference_high": apart.high}
        figures |= {"p": found.p, "detectable": found.detectable}
        results[cell] = {
            **{name: finite_or_none(column[at]) for name, column in figures.items()},
            "leader": leader,
            "tied": not found.apart[at],
            "within_margin": bool(found.within[at]),
            "questions_needed": None if needed is None else int(needed),
        }
    return [{**row, **results.get(row["cell"], {**UNCOMPARED, "leader": leader})} for row, _ in valued]


def _contrasts(
    values: Mapping[str, Mapping[str, float]],
    leader: str,
    others: Sequence[str],
    seed: int,
    clusters: Clustering,
    margin: float | None,
    resamples: int = RESAMPLES,
) -> tuple[Contrasts, list[int]]:
    questions = sorted(values[leader])
    table = table_of(values, [leader, *others], questions)
    apart = table[:, 1:] - table[:, :1]
    unique, which = np.unique(apart.T, axis=0, return_inverse=True)
    binary = bool((np.isnan(table) | (table == 0) | (table == 1)).all())
    stated, codes = math.nan if margin is None else margin, clusters.codes(questions)
    found = contrasts(unique.T, seed, codes, binary=binary, resamples=resamples, margin=stated)
    return found, which.ravel().tolist()


def table_of(
    values: Mapping[str, Mapping[str, float]], cells: Sequence[str], questions: Sequence[str]
) -> Floats:
    table = [[values[cell].get(question, math.nan) for question in questions] for cell in cells]
    return np.array(table, np.float64).reshape(len(cells), len(questions)).T


def tie_groups(
    compared_rows: Sequence[Row],
    valued: Valued,
    seed: int,
    clusters: Clustering = ALONE,
    margin: float | None = None,
) -> dict[str, int]:
    """Put the ranked cells of one subset into groups by the primary metric; return cell -> group, from 1.

    The first group holds what is tied with the leader, the second what is tied with the best of the rest,
    and so on: each is a choice of the cells that may be the best of those that are left (Gupta, Technometrics
    1965; Hsu, Annals of Statistics 1984). A cell whose differences vary much can precede one with a better
    mean.
    """
    ranked = [row for row in compared_rows if row["rank"] is not None and row["tied"] is not None]
    left = [row["cell"] for row in sorted(ranked, key=lambda row: (row["rank"], row["cell"]))]
    values = {row["cell"]: found for row, found in valued}
    tied = {row["cell"] for row in ranked if row["tied"]}
    groups: dict[str, int] = {}
    number = 1
    while left:
        groups |= {cell: number for cell in left if cell in tied}
        left = [cell for cell in left if cell not in tied]
        number += 1
        if left:
            found, which = _contrasts(values, left[0], left[1:], seed, clusters, margin, FURTHER_RESAMPLES)
            tied = {left[0]}
            tied |= {cell for cell, at in zip(left[1:], which, strict=True) if not found.apart[at]}
    return groups


def posterior_columns(
    valued: Valued,
    ranked: set[str],
    metric: Metric,
    margin: float | None,
    seed: int,
    clusters: Clustering = ALONE,
) -> dict[str, Row]:
    """Return for each ranked cell `p_best`, `expected_loss`, `p_loss` and `bound` (`Posterior`).

    Losses are against the cell with the best mean; without a margin `p_loss` is None. Of a metric without
    two bounds the range is taken to be four standard deviations of its values.
    """
    values = {row["cell"]: found for row, found in valued if row["cell"] in ranked and found}
    if not values:
        return {}
    questions = sorted({question for found in values.values() for question in found})
    sign = 1.0 if metric.higher_is_better else -1.0
    table = sign * table_of(values, list(values), questions)
    width = width_of(metric) or 4 * float(np.nanstd(table)) or 1.0
    found = posterior(table, seed, math.nan if margin is None else margin, width, clusters.codes(questions))
    columns = [list(map(finite_or_none, column.tolist())) for column in found]
    rows = (dict(zip(Posterior._fields, row, strict=True)) for row in zip(*columns, strict=True))
    return dict(zip(values, rows, strict=True))


class Bounded(Protocol):
    """A metric, for margins."""

    @property
    def name(self) -> str:
        """Its name in the rows."""

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """Lowest and highest possible value; None: there is none."""


DEFAULT_MARGIN = 0.02  # a loss that does not matter, as a share of the metric's range


def width_of(metric: Bounded) -> float | None:
    low, high = metric.bounds
    return None if low is None or high is None else float(high - low)


def margin_of(metric: Bounded, stated: float | None, primary: Bounded) -> float | None:
    """Return a loss that does not matter, in the metric's unit; None: the metric has no range.

    stated: in the unit of the study's first metric; None: `DEFAULT_MARGIN` of the range
    """
    if stated is not None and metric.name == primary.name:
        return stated
    width, of_primary = width_of(metric), width_of(primary)
    if width is None:
        return None
    return width * (DEFAULT_MARGIN if stated is None or not of_primary else stated / of_primary)


def finite_or_none(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def primary_of(metrics: Sequence[str], measured: Iterable[str]) -> str:
    """Return the first of a study's metrics that applies to any question."""
    found = set(measured)
    return next((name for name in metrics if name in found), metrics[0])
