"""Two cells side by side: what the page must know to compare any two of them, question by question."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from rag_assay.evals.reporting.data import MetricInfo, ReportData
from rag_assay.evals.reporting.standings import Subset

LEAST_CLUSTERS = 6  # of questions, for an interval by Student's distribution


@dataclass(frozen=True)
class Pairs:
    """What two cells are chosen from, and what is known of them.

    cells: key -> how it is shown, in the order of the leaderboard
    metrics: what any of them has values of
    known: JSON of `leader`; `clusters`: number of each question's cluster, in the order of the questions,
        empty where each is one of its own; `results`: metric -> cell -> its difference to the leader, the
        interval's ends, p and whether it is tied, as the leaderboard has them; `least`: LEAST_CLUSTERS;
        `units` and `higher`, whether more is better, by metric
    drawn: what is drawn again, as a noun
    """

    cells: Mapping[str, str]
    metrics: tuple[MetricInfo, ...]
    known: str
    drawn: str


def pairs(data: ReportData, main: Subset, labels: Mapping[str, str]) -> Pairs | None:
    """Return what two cells are chosen from; None where there are no two with scores."""
    there = set(data.scores["cell"].unique())
    cells = {key: label for key, label in labels.items() if key in there}
    if len(cells) < 2:
        return None
    measured = set(data.scores["metric"].unique())
    metrics = tuple(one for one in data.metrics if one.name in measured)
    codes = data.clusters.codes(data.questions["question_id"].to_list())
    board = data.leaderboard.filter((pl.col("subset") == main.name) & pl.col("p").is_not_null())
    columns = ("metric", "cell", "difference", "difference_low", "difference_high", "p", "tied")
    results: dict[str, dict[str, list[object]]] = {}
    for metric, cell, *found in board.select(columns).iter_rows():
        results.setdefault(metric, {})[cell] = found
    known = {
        "leader": data.verdict.leader.cell if data.verdict.leader else None,
        "clusters": [] if codes is None else codes.tolist(),
        "results": results,
        "least": LEAST_CLUSTERS,
        "units": {one.name: one.unit for one in metrics},
        "higher": {one.name: one.higher_is_better for one in metrics},
    }
    return Pairs(cells, metrics, json.dumps(known), "questions" if codes is None else "clusters of questions")
