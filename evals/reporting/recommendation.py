"""The cell that a study recommends: read from DuckDB, and put into words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from evals.measuring.contract import Metric
from evals.measuring.running_costs import RunningCost, running_costs
from evals.reporting.data import MetricInfo, ReportData
from evals.reporting.display import count, number, quantity, several
from evals.reporting.standings import main_subset, varying_axes
from evals.reporting.stored_costs import running_rows
from evals.statistics.comparison import primary_of
from evals.statistics.recommendation import Recommendation, recommend
from evals.study.simplicity import Simplicity, chunk_counts, simplicities, unpriced
from evals.study.study import Study
from warehouse.artifacts import ArtifactStore
from warehouse.paths import Home

_KNOWN: WeakKeyDictionary[ReportData, Mapping[str, RunningCost]] = WeakKeyDictionary()


def recommendation_of(study: Study, home: Home) -> Recommendation:
    """Return what the leaderboard of a study recommends, as its report says it.

    Raises:
        InputError: the study has not been run, or not as its file is now.
    """
    from evals.reporting.rows import leaderboard_rows  # its parts take a second to import

    board = leaderboard_rows(study, home)
    primary = primary_of(study.measured, board["metric"])
    metrics = sorted(map(study.metric, study.measured), key=lambda metric: metric.name != primary)
    seconds = seconds_metrics(metrics)
    costs = running_costs(*running_rows(study, home, seconds), seconds, unpriced(study))
    simple = simplicities(study, chunk_counts(study, ArtifactStore(home)))
    return recommend(board.to_dicts(), metrics, simple, costs)


def recommendation(data: ReportData) -> Recommendation:
    """Return what a leaderboard recommends."""
    return recommend(data.leaderboard.to_dicts(), data.metrics, data.simplicities or {}, running(data))


def running(data: ReportData) -> Mapping[str, RunningCost]:
    """Return cell -> what it costs to run; computed once for each report."""
    if data not in _KNOWN:
        _KNOWN[data] = running_costs(data.scores, data.answers, seconds_metrics(data.metrics), data.unpriced)
    return _KNOWN[data]


def seconds_metrics(metrics: Iterable[Metric | MetricInfo]) -> list[str]:
    """Return the names of the metrics whose sum is the time of a question."""
    return [one.name for one in metrics if one.kind == "cost" and one.unit == "s"]


def recommendation_sentences(data: ReportData, found: Recommendation | None = None) -> list[str]:
    """Say which cell to take, why, what it costs, and what is given up at most; one sentence each."""
    found = found or recommendation(data)
    if found.cell is None:
        return [f"No cell is recommended: {found.reason}."]
    label, costs = _labels(data), running(data)
    name = label.get(found.cell, found.cell)
    lines = [f"Take {name}: {_why(data, found)}."]
    if found.cell != found.leader:
        lines.append(_given_up(data, found, label))
    words = cost_words(costs.get(found.cell, RunningCost()))
    lines.append(f"Its cost: {words}{_cheapest(found, label, costs)}.")
    return lines


def recommendation_row(data: ReportData) -> dict[str, Any]:
    """Return the recommendation as a row beside the leaderboard's: its metric is `recommendation`."""
    found = recommendation(data)
    cost = running(data).get(found.cell or "", RunningCost())
    return {
        "recommended": found.cell,
        "subset": found.subset,
        "cell": found.cell,
        "metric": "recommendation",
        "value": None,
        "by": found.metric,
        "n": found.questions,
        "leader": found.leader,
        "tied_cells": list(found.tied),
        "as_good_by": found.second,
        "cheapest": found.cheapest,
        "gives_up": found.difference,
        "gives_up_at_most": found.gives_up,
        "usd_per_1000": cost.usd,
        "seconds_p50": cost.p50,
        "seconds_p95": cost.p95,
        "reason": found.reason or " ".join(recommendation_sentences(data, found)),
    }


def cost_words(cost: RunningCost) -> str:
    """Write a price and its times.

    >>> cost_words(RunningCost(0.0, 0.0123, 0.5)), cost_words(RunningCost(None, None, None))
    ('US$ 0 for 1,000 questions, 0.012 s at the median (p95 0.500 s)', 'price not known')
    """
    price = "price not known" if cost.usd is None else f"{usd(cost.usd)} for 1,000 questions"
    if cost.p50 is None or cost.p95 is None:
        return price
    return f"{price}, {quantity(cost.p50, 's')} at the median (p95 {quantity(cost.p95, 's')})"


def usd(value: float) -> str:
    """Write US dollars: cents where there are dollars, two digits that say something where there are none.

    >>> usd(0.0), usd(12.345), usd(0.01234), usd(1234.5)
    ('US$ 0', 'US$ 12.35', 'US$ 0.012', 'US$ 1,234.50')
    """
    return f"US$ {price(value)}"


def price(value: float) -> str:
    """Write US dollars without their name.

    >>> price(0.0), price(2.0), price(0.00123)
    ('0', '2.00', '0.0012')
    """
    if value == 0:
        return "0"
    return f"{value:,.2f}" if value >= 1 else f"{value:.2g}"


def simplicity_words(one: Simplicity) -> str:
    """Say what a cell takes.

    >>> simplicity_words(Simplicity(0, 1, 3, 1200))
    'no call of a language model, 1 model in retrieval, 3 parts, 1\u202f200 chunks'
    """
    calls = (
        f"{several(one.calls, 'call')} of a language model" if one.calls else "no call of a language model"
    )
    models = f"{several(one.models, 'model')} in retrieval" if one.models else "no model in retrieval"
    chunks = f", {several(one.chunks, 'chunk')}" if one.chunks else ""
    return f"{calls}, {models}, {several(one.parts, 'part')}{chunks}"


def _labels(data: ReportData) -> dict[str, str]:
    standings = main_subset(data).standings
    axes = varying_axes(standings)
    return {one.cell.key: one.cell.label(axes) for one in standings}


def _why(data: ReportData, found: Recommendation) -> str:
    if len(found.tied) == 1:
        return "every other ranked cell can be told apart from it" if _others(data) else "it stands alone"
    of = f"of {several(len(found.tied), 'cell')} that the questions cannot tell apart from the first"
    if found.second:
        title = next(one.title for one in data.metrics if one.name == found.second)
        of += f", and the {count(len(found.among))} of them that are as good by {title},"
    if len(found.among) == 1:
        return f"{of} it is the one left"
    simple = (data.simplicities or {}).get(found.cell or "")
    return f"{of} it is the simplest" + (f" ({simplicity_words(simple)})" if simple else "")


def _others(data: ReportData) -> bool:
    return sum(one.rank is not None for one in main_subset(data).standings) > 1


def _given_up(data: ReportData, found: Recommendation, label: Mapping[str, str]) -> str:
    leader = label.get(found.leader or "", found.leader or "")
    title, unit = data.primary.title, data.primary.unit
    if found.difference is None:
        return f"It was not compared with {leader}, which is the first by {title}."
    measured = f"as measured it is {quantity(found.difference, unit)}"
    if found.gives_up is None:
        why = "and the questions are too few to say how much at most"
        return f"{leader} is the first by {title}; {measured} better, {why}."
    return (
        f"At most it gives up {number(found.gives_up, unit)} of {title} against the first, {leader}; "
        f"{measured} (the upper end of the 95 % interval, of this difference alone)."
    )


def _cheapest(found: Recommendation, label: Mapping[str, str], costs: Mapping[str, RunningCost]) -> str:
    if found.cheapest is None or len(found.among) == 1:
        return ""
    if found.cheapest == found.cell:
        return "; none of them is cheaper or, at that price, faster"
    words = cost_words(costs.get(found.cheapest, RunningCost()))
    return f"; the cheapest of them is {label.get(found.cheapest, found.cheapest)} ({words})"
