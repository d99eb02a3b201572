"""Ranks cells and tests which of them differ from the leader."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from evals.measuring.contract import Metric
from evals.statistics.significance import ALPHA, holm, paired_bootstrap
from warehouse.schemas import MIN_COVERAGE, Status

Floats = npt.NDArray[np.float64]
Row = dict[str, Any]
Valued = list[tuple[Row, dict[str, float]]]
"""Rows of schemas.LEADERBOARD of one subset and metric, each with its values by question."""

UNCOMPARED: Row = dict.fromkeys(("leader", "difference", "difference_low", "difference_high", "p", "tied"))


def answered(answers: pl.DataFrame, answerable: Mapping[str, bool], questions: Iterable[str]) -> float:
    """Return the share of questions that a cell has dealt with: by an answer, or by a refusal.

    A question for which the retriever found nothing is refused: there is nothing to answer it from.
    A refusal may be right, and metrics say whether it is. But a cell that refuses all questions, of which the
    documents answer some, has given no answer: its share is 0.

    Args:
        answers: rows of schemas.ANSWERS.
        answerable: of every question, whether the documents answer it.
    """
    wanted = set(questions)
    dealt = {"answers": 0, "refusals": 0}
    missed = False
    for question, status, text in answers.select("question_id", "status", "answer").iter_rows():
        if question not in wanted:
            continue
        dealt["answers"] += status == Status.OK and bool(text)
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


def leader_of(rows: Sequence[Row], primary: Metric) -> str | None:
    """Return the cell that leads a subset: of those with the best value the first by name, if any is able."""
    sign = -1 if primary.higher_is_better else 1
    first = [row for row in rows if row["metric"] == primary.name and row["rank"] == 1]
    return min(((sign * row["value"], row["cell"]) for row in first), default=(0.0, None))[1]


def compared(valued: Valued, leader: str | None, ranked: set[str], seed: int) -> list[Row]:
    """Add to rows of one subset and metric how the cells differ from the leader on the questions of both.

    The cells with a rank and a value of enough questions are one family of comparisons (Holm); those that
    share every value with each other are one comparison. `tied` says that a cell cannot be told apart from
    the leader in this metric. That at most one study in twenty parts the best cell from its leader is what
    this promises (Hsu, Annals of Statistics 1984, of such comparisons with the best); it is no promise for
    every single cell, since the leader is found in the same data.
    """
    able = {row["cell"]: values for row, values in valued if row["cell"] in ranked and is_able(row)}
    if leader is None or leader not in able:
        return [{**row, **UNCOMPARED} for row, _ in valued]
    others = [cell for cell in able if cell != leader]
    questions = sorted(able[leader])
    table = np.array([[able[cell].get(q, math.nan) for q in questions] for cell in others], np.float64)
    apart = table.reshape(len(others), len(questions)) - np.array([able[leader][q] for q in questions])
    unique, which = np.unique(apart, axis=0, return_inverse=True)
    found = paired_bootstrap(unique.T, seed)
    adjusted = holm(found.p)
    results: dict[str, Row] = {leader: {**UNCOMPARED, "leader": leader, "difference": 0.0, "tied": True}}
    for cell, at in zip(others, which.ravel(), strict=True):
        results[cell] = {
            "leader": leader,
            "difference": _number(found.mean[at]),
            "difference_low": _number(found.low[at]),
            "difference_high": _number(found.high[at]),
            "p": _number(adjusted[at]),
            "tied": not adjusted[at] < ALPHA,
        }
    return [{**row, **results.get(row["cell"], {**UNCOMPARED, "leader": leader})} for row, _ in valued]


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def primary_of(metrics: Sequence[str], measured: Iterable[str]) -> str:
    """Return the metric that ranks the cells: the first of a study's that applies to any question of it.

    >>> primary_of(["evidence_coverage@5", "ndcg@10"], ["ndcg@10", "recall@10"])
    'ndcg@10'
    """
    found = set(measured)
    return next((name for name in metrics if name in found), metrics[0])
