"""Ranks cells and tests which of them differ from the leader."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from rag_assay.evals.metrics.contract import Metric
from rag_assay.evals.statistics.contrasts import Contrasts, contrasts
from rag_assay.evals.statistics.posterior import Posterior, posterior
from rag_assay.evals.statistics.question_clusters import ALONE, Clustering
from rag_assay.evals.statistics.significance import ALPHA, RESAMPLES
from rag_assay.warehouse.schemas import MIN_COVERAGE, Status

Floats = npt.NDArray[np.float64]
Row = dict[str, Any]
Valued = list[tuple[Row, dict[str, float]]]
"""Rows of schemas.LEADERBOARD of one subset and metric, each with its values by question."""

UNCOMPARED: Row = dict.fromkeys(
    (
        *("leader", "difference", "difference_low", "difference_high", "p", "tied"),
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
    """Return the share of questions that a cell has dealt with: by an answer, or by a refusal.

    A question for which the retriever found nothing is refused: there is nothing to answer it from.
    A refusal may be right, and metrics say whether it is. But a cell that refuses all questions, of which the
    documents answer some, has given no answer: its share is 0.

    Args:
        answers: rows of schemas.ANSWERS.
        answerable: of every question, whether the documents answer it.
        said_nothing: an answer without text is one, too: that of a sheet, which says no more of it.
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

    Those with too little coverage get no rank, nor do those whose generator answered too few questions:
    whatever their ranking is worth, they are not what was to be compared.

    ceilings: cells that answer from the gold evidence: nobody can have them, so they have no rank
    """
    sign = -1 if primary.higher_is_better else 1
    ranks: dict[tuple[str, str], int] = {}
    for subset in {row["subset"] for row in rows}:
        able = {
            row["cell"]: sign * row["value"]
            for row in rows
            if row["subset"] == subset
            and row["metric"] == primary.name
            and is_able(row)
            and row["cell"] not in ceilings
        }
        for cell, value in able.items():
            # Sums of the same numbers in another order differ in the last digits.
            better = sum(
                other < value and not math.isclose(other, value, rel_tol=1e-12) for other in able.values()
            )
            ranks[subset, cell] = better + 1
    return [{**row, "rank": ranks.get((row["subset"], row["cell"]))} for row in rows]


def is_able(row: Row) -> bool:
    """Return whether enough questions have a value and, where there is a generator, an answer."""
    covered = row["value"] is not None and row["coverage"] >= MIN_COVERAGE
    return covered and (row["answered"] is None or row["answered"] >= MIN_COVERAGE)


def leader_of(rows: Sequence[Row], primary: Metric, second: Metric | None = None) -> str | None:
    """Return the cell that leads a subset, if any is able.

    Of cells with the best value (one ranking, read by several generators) it is the best by the second
    metric, then the first by name.
    """
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
    valued: Valued, leader: str | None, ranked: set[str], seed: int, clusters: Clustering = ALONE
) -> list[Row]:
    """Add to rows of one subset and metric how the cells differ from the leader on the questions of both.

    The cells with a rank and a value of enough questions are one family of comparisons; those that share
    every value with each other are one comparison. `tied` says that a cell is not significantly different
    from the leader in this metric (`evals.statistics.contrasts`).
    """
    able = {row["cell"]: values for row, values in valued if row["cell"] in ranked and is_able(row)}
    if leader is None or leader not in able:
        return [{**row, **UNCOMPARED} for row, _ in valued]
    others = [cell for cell in able if cell != leader]
    results: dict[str, Row] = {leader: {**UNCOMPARED, "leader": leader, "difference": 0.0, "tied": True}}
    found, which = _contrasts(able, leader, others, seed, clusters)
    for cell, at in zip(others, which, strict=True):
        needed = _number(found.needed[at])
        results[cell] = {
            "leader": leader,
            "difference": _number(found.differences.mean[at]),
            "difference_low": _number(found.differences.low[at]),
            "difference_high": _number(found.differences.high[at]),
            "p": _number(found.p[at]),
            "tied": not found.p[at] < ALPHA,
            "detectable": _number(found.detectable[at]),
            "questions_needed": None if needed is None else int(needed),
        }
    return [{**row, **results.get(row["cell"], {**UNCOMPARED, "leader": leader})} for row, _ in valued]


def _contrasts(
    values: Mapping[str, Mapping[str, float]],
    leader: str,
    others: Sequence[str],
    seed: int,
    clusters: Clustering,
    resamples: int = RESAMPLES,
) -> tuple[Contrasts, list[int]]:
    """Compare others with the leader; return also which column each of them is: equal ones share one."""
    questions = sorted(values[leader])
    table = table_of(values, [leader, *others], questions)
    apart = table[:, 1:] - table[:, :1]
    unique, which = np.unique(apart.T, axis=0, return_inverse=True)
    binary = bool((np.isnan(table) | (table == 0) | (table == 1)).all())
    found = contrasts(unique.T, seed, clusters.codes(questions), binary=binary, resamples=resamples)
    return found, which.ravel().tolist()


def table_of(
    values: Mapping[str, Mapping[str, float]], cells: Sequence[str], questions: Sequence[str]
) -> Floats:
    """Return the values of cells, NaN where there is none: shape (questions, cells)."""
    table = [[values[cell].get(question, math.nan) for question in questions] for cell in cells]
    return np.array(table, np.float64).reshape(len(cells), len(questions)).T


def tie_groups(
    compared_rows: Sequence[Row], valued: Valued, seed: int, clusters: Clustering = ALONE
) -> dict[str, int]:
    """Put the ranked cells of one subset into groups by the primary metric; return cell -> group, from 1.

    The first group holds what is tied with the leader, the second what is tied with the best of
    the rest, and so on: each is a choice of the cells that may be the best of those that are left (Gupta,
    Technometrics 1965; Hsu, Annals of Statistics 1984). A letter for each set of cells no two of which
    differ (Piepho, Journal of Computational and Graphical Statistics 2004) would say more of pairs far from
    the top, but takes all pairs into the family, and has more letters than a reader can follow.

    A cell whose differences vary much can be in an earlier group than one with a better mean.
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
            found, which = _contrasts(values, left[0], left[1:], seed, clusters, FURTHER_RESAMPLES)
            tied = {left[0]}
            tied |= {cell for cell, at in zip(left[1:], which, strict=True) if not found.p[at] < ALPHA}
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
    columns = [[_number(one) for one in column.tolist()] for column in found]
    return {
        cell: dict(zip(Posterior._fields, row, strict=True))
        for cell, row in zip(values, zip(*columns, strict=True), strict=True)
    }


class Bounded(Protocol):
    """What must be known of a metric to say which loss matters."""

    @property
    def name(self) -> str:
        """Its name in the rows."""

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """Lowest and highest possible value; None: there is none."""


DEFAULT_MARGIN = 0.02
"""A loss that does not matter, as a share of the metric's range."""


def width_of(metric: Bounded) -> float | None:
    """Return the range of a metric; None: it has none."""
    low, high = metric.bounds
    return None if low is None or high is None else float(high - low)


def margin_of(metric: Bounded, stated: float | None, primary: Bounded) -> float | None:
    """Return a loss that does not matter, in the metric's unit; None: the metric has no range.

    stated: the study's, in the unit of its first metric; None: `DEFAULT_MARGIN` of the range
    """
    if stated is not None and metric.name == primary.name:
        return stated
    width, of_primary = width_of(metric), width_of(primary)
    if width is None:
        return None
    return width * (DEFAULT_MARGIN if stated is None or not of_primary else stated / of_primary)


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def primary_of(metrics: Sequence[str], measured: Iterable[str]) -> str:
    """Return the metric that ranks the cells: the first of a study's that applies to any question of it.

    >>> primary_of(["evidence_coverage@5", "ndcg@10"], ["ndcg@10", "recall@10"])
    'ndcg@10'
    """
    found = set(measured)
    return next((name for name in metrics if name in found), metrics[0])
