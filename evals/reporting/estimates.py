"""What people, judges, and both together say of the cells: three means side by side, never mixed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.display import MISSING, count, interval, number, percent, several, with_sign
from rag_assay.evals.rubrics.rubric import metric_name

MOST_CELLS = 30
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Estimated:
    """One line: the three means with their intervals, each a figure of its own.

    name: of a cell or of a judge's metric
    why: what is missing, and why; empty where nothing is
    """

    name: str
    people: str
    people_interval: str
    labels: str
    judged: str
    judged_interval: str
    judgements: str
    combined: str
    combined_interval: str
    narrower: str
    saved: str
    difference: str
    difference_interval: str
    why: str = ""


@dataclass(frozen=True)
class Estimates:
    """What is said by one criterion.

    name: `people.RUBRIC[.CRITERION]`; metric: whose judgements save most, by which the cells are estimated
    sentence: how many labels judgements save, and how many more the wanted interval needs
    judges: a line a metric, of all cells together; cells: a line a cell, by that metric
    left_out: further cells
    """

    name: str
    metric: str
    sentence: str
    judges: tuple[Estimated, ...]
    cells: tuple[Estimated, ...]
    left_out: int


def estimates(data: ReportData, labels: Mapping[str, str] | None = None) -> tuple[Estimates, ...]:
    """Return the estimates of every criterion that people have scored.

    labels: key of a cell -> how it is shown
    """
    if data.human_estimates is None or data.human_estimates.is_empty():
        return ()
    found = []
    for (rubric, criterion), rows in data.human_estimates.group_by(
        "rubric", "criterion", maintain_order=True
    ):
        named = metric_name(str(rubric), None if criterion is None else str(criterion))
        found.append(_estimates(named, rows, data, labels or {}))
    return tuple(found)


def estimate_sentences(data: ReportData) -> list[str]:
    """Return, for the terminal, a sentence a criterion."""
    return [f"{one.name}: {one.sentence}" for one in estimates(data)]


def estimate_json(data: ReportData) -> list[dict[str, Any]]:
    """Return the estimates for the rows beside the report: of no metric, so that none looks like a score."""
    if data.human_estimates is None:
        return []
    return [
        {
            **row,
            "estimate_of": metric_name(row["rubric"], row["criterion"]),
            "judged_by": row["metric"],
            "metric": None,
        }
        for row in data.human_estimates.iter_rows(named=True)
    ]


def _estimates(name: str, rows: pl.DataFrame, data: ReportData, labels: Mapping[str, str]) -> Estimates:
    titles = {one.name: one.title for one in data.metrics}
    together = sorted(
        rows.filter(pl.col("cell").is_null()).iter_rows(named=True), key=lambda row: -(row["saved"] or 0.0)
    )
    best = together[0]
    cells = rows.filter(pl.col("cell").is_not_null() & (pl.col("metric") == best["metric"]))
    ordered = sorted(
        cells.iter_rows(named=True), key=lambda row: (-(row["combined"] or -math.inf), row["cell"])
    )
    return Estimates(
        name,
        titles.get(best["metric"], best["metric"]),
        _sentence(best, titles.get(best["metric"], best["metric"])),
        tuple(_line(titles.get(row["metric"], row["metric"]), row) for row in together),
        tuple(_line(labels.get(row["cell"], row["cell"]), row) for row in ordered[:MOST_CELLS]),
        max(len(ordered) - MOST_CELLS, 0),
    )


def _line(name: str, row: Row) -> Estimated:
    saved = row["saved"]
    is_leader = row["leader"] is not None and row["leader"] == row["cell"]
    return Estimated(
        name,
        number(row["people"]),
        interval(row["people_low"], row["people_high"]),
        f"{count(row['labels'])} of {count(row['items'])}",
        number(row["judged"]),
        interval(row["judged_low"], row["judged_high"]),
        f"{count(row['judgements'])} of {count(row['items'])}",
        number(row["combined"]),
        interval(row["combined_low"], row["combined_high"]),
        MISSING if row["width"] is None else percent(max(1 - row["width"], 0.0)),
        MISSING if saved is None else count(round(saved)),
        "the highest" if is_leader else with_sign(row["difference"]),
        MISSING if is_leader else interval(row["difference_low"], row["difference_high"]),
        _why(row),
    )


def _why(row: Row) -> str:
    parts = [row["reason"]] if row["reason"] else []
    if row["judged"] is None:
        parts.append("no judgements" if not row["judgements"] else "the metric has no bounds")
    if row["left_out"]:
        parts.append(f"{several(row['left_out'], 'score')} left out that the queue did not draw")
    return "; ".join(parts)


def _sentence(row: Row, title: str) -> str:
    """Say of all cells together what judgements save, and what the wanted interval needs.

    >>> row = {"labels": 60, "items": 200, "judgements": 200, "saved": 23.4, "width": 0.846, "wanted": 0.25}
    >>> _sentence({**row, "labels_needed": 90, "combined_low": 2.0}, "Support by small")[:74]
    'Of 200 answers, people have scored 60. With the 200 judgements by Support '
    """
    said = f"Of {several(row['items'], 'answer')}, people have scored {count(row['labels'])}."
    if row["combined_low"] is None:
        return f"{said} That is too few for an interval."
    if row["labels"] == row["items"]:
        return f"{said} So the estimate is the mean of their scores. {_needed(row)}"
    saved = round(row["saved"] or 0)
    width = 1.0 if row["width"] is None else row["width"]
    if saved:
        said += (
            f" With the {several(row['judgements'], 'judgement')} by {title} the interval is "
            f"{percent(max(1 - width, 0.0))} narrower, as if {several(saved, 'more answer')} had been scored."
        )
    else:
        said += " No judge makes the interval narrower."
    return f"{said} {_needed(row)}"


def _needed(row: Row) -> str:
    wanted = f"An interval of ±{row['wanted']:g}"
    needed = row["labels_needed"]
    if needed is None:
        return f"{wanted} is out of reach with these answers, all of them scored: it needs more questions."
    more = needed - row["labels"]
    return f"{wanted} is reached." if more <= 0 else f"{wanted} needs about {several(more, 'further score')}."
