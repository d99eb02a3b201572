"""Which cell to take: of those that cannot be told apart from the leader, the simplest, and the cheapest.

By the mean alone a study of near equals would recommend the winner of a lottery. What ties with the leader is
as good as far as the questions can tell, so what decides among them is what they take to run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from evals.measuring.running_costs import RunningCost
from evals.study.simplicity import Simplicity

Row = Mapping[str, Any]


class Measured(Protocol):
    """What must be known of a metric."""

    @property
    def name(self) -> str:
        """Its name in the rows."""

    @property
    def kind(self) -> str:
        """What it measures: retrieval, answer or cost."""

    @property
    def higher_is_better(self) -> bool:
        """Whether the larger value is the better one."""


ALL = "all"
NOT_RANKED = "no cell has a rank: of none do 98 % of the questions have a value and an answer"
NOT_RUN = "no cell was run"


@dataclass(frozen=True)
class Recommendation:
    """What a leaderboard recommends.

    cell: the one to take, the simplest of `among`; None: there is none, and `reason` says why
    leader: the cell with the best mean, None where no cell has a rank
    tied: the leader and what cannot be told apart from it by the metric, best first
    among: those of `tied` that are as good by `second`, the first metric of answers, where the first metric
        looks at rankings alone and so cannot tell generators apart; else all of them
    second: None: it was not needed, or tells none of them apart
    cheapest: of `among`
    difference: by how much the leader's mean is better than that of `cell`, at least 0
    gives_up: the upper end of the 95 % interval of that: what is given up at most; None: too few questions
        for an interval. 0 of the leader itself
    """

    metric: str
    subset: str
    questions: int
    cell: str | None
    leader: str | None = None
    tied: tuple[str, ...] = ()
    among: tuple[str, ...] = ()
    second: str | None = None
    cheapest: str | None = None
    difference: float | None = None
    gives_up: float | None = None
    reason: str | None = None


def recommend(
    rows: Sequence[Row],
    metrics: Sequence[Measured],
    simple: Mapping[str, Simplicity],
    costs: Mapping[str, RunningCost],
) -> Recommendation:
    """Recommend a cell of one leaderboard, by all questions or, without those, by the largest sample.

    Simplest is what has, in this order: the fewest calls of language models a question, the fewest other
    models in retrieval, the fewest parts of the retriever, the lowest price, the smallest index, the better
    rank. Cheapest is what has the lowest price, then the shortest median time, then the better rank. What is
    not known comes last.

    Args:
        rows: of schemas.LEADERBOARD of one study.
        metrics: of the study; the first ranks the cells.
        simple: what each cell takes.
        costs: what each cell costs.
    """
    primary = metrics[0]
    subset = _main_subset(rows)
    mine = [row for row in rows if row["subset"] == subset]
    first = {row["cell"]: row for row in mine if row["metric"] == primary.name}
    ranked = sorted((row for row in first.values() if row["rank"] is not None), key=_place)
    questions = max((row["n"] or 0 for row in first.values()), default=0)
    if not ranked:
        why = NOT_RANKED if first else NOT_RUN
        return Recommendation(primary.name, subset, questions, None, reason=why)
    leader = next((row["leader"] for row in ranked if row["leader"]), ranked[0]["cell"])
    tied = [row["cell"] for row in ranked if row["cell"] == leader or row["tied"] is not False]
    tied.sort(key=lambda cell: (cell != leader, _place(first[cell])))
    second, among = _as_good_by_answers(mine, metrics, tied)
    places = {cell: place for place, cell in enumerate(tied)}

    def simplicity(cell: str) -> tuple[float, ...]:
        one = simple.get(cell)
        taken = (math.inf,) * 3 if one is None else (one.calls, one.models, one.parts)
        chunks = None if one is None else one.chunks
        return (*taken, _last(_of(costs, cell).usd), _last(chunks), places[cell])

    def price(cell: str) -> tuple[float, ...]:
        one = _of(costs, cell)
        return (_last(one.usd), _last(one.p50), places[cell])

    chosen = min(among, key=simplicity)
    difference, gives_up = _given_up(first[chosen], chosen == leader, primary)
    return Recommendation(
        primary.name,
        subset,
        questions,
        chosen,
        leader,
        tuple(tied),
        tuple(among),
        second,
        min(among, key=price),
        difference,
        gives_up,
    )


def _main_subset(rows: Sequence[Row]) -> str:
    names = {row["subset"] for row in rows}
    if ALL in names or not names:
        return ALL
    return max(names, key=lambda name: (max(row["n"] or 0 for row in rows if row["subset"] == name), name))


def _place(row: Row) -> tuple[int, str]:
    return row["rank"], row["cell"]


def _as_good_by_answers(
    rows: Sequence[Row], metrics: Sequence[Measured], tied: list[str]
) -> tuple[str | None, list[str]]:
    """Return which of the tied cells a metric of answers leaves, where the first metric cannot see answers.

    It is the first metric of answers by which cells were compared. Cells that are better than the leader by
    it, by more than chance, leave no others; else those are left out that are worse by more than chance.
    """
    if metrics[0].kind != "retrieval":
        return None, tied
    answers = (one for one in metrics if one.kind == "answer")
    for metric in answers:
        compared = {
            row["cell"]: row
            for row in rows
            if row["metric"] == metric.name and row["cell"] in tied and row["tied"] is not None
        }
        if len(compared) > 1:
            sign = 1 if metric.higher_is_better else -1
            apart = {cell: sign * row["difference"] for cell, row in compared.items() if not row["tied"]}
            better = [cell for cell in tied if apart.get(cell, 0.0) > 0]
            left = better or [cell for cell in tied if cell in compared and apart.get(cell, 0.0) >= 0]
            return (metric.name, left) if len(left) < len(tied) else (None, tied)
    return None, tied


def _given_up(row: Row, is_leader: bool, metric: Measured) -> tuple[float | None, float | None]:
    """Return by how much the leader is better, as measured and at most."""
    if is_leader:
        return 0.0, 0.0
    if row["difference"] is None:
        return None, None
    sign = -1.0 if metric.higher_is_better else 1.0
    end = row["difference_low"] if metric.higher_is_better else row["difference_high"]
    return max(0.0, sign * row["difference"]), None if end is None else max(0.0, sign * end)


def _of(costs: Mapping[str, RunningCost], cell: str) -> RunningCost:
    return costs.get(cell, RunningCost())


def _last(value: float | None) -> float:
    return math.inf if value is None else value
