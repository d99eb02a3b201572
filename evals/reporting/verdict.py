"""How sure the first place is, and what the leader costs: what stands below the headline."""

from __future__ import annotations

from evals.measuring.running_costs import RunningCost
from evals.reporting.data import ReportData
from evals.reporting.display import interval, number, percent
from evals.reporting.entries import Entry, entries
from evals.reporting.recommendation import cost_words, running
from evals.reporting.standings import main_subset


def verdict_sentences(data: ReportData) -> list[str]:
    """Say by how much the leader is ahead, how sure that is, what it costs; nothing where none has a rank."""
    ranked = [one for one in entries(data, main_subset(data)) if one.rank is not None]
    if not ranked:
        return []
    leader, others = ranked[0], ranked[1:]
    lines = [_ahead(data, others[0])] if others else []
    if leader.p_best is not None and others:
        lines.append(
            f"When the questions are drawn again, the leader is the first in {percent(leader.p_best)} "
            "of the draws."
        )
    cost = running(data).get(leader.cells[0], RunningCost())
    return [*lines, f"The cost of the leader: {cost_words(cost)}."]


def _ahead(data: ReportData, other: Entry) -> str:
    """Say how far the second is behind, with the interval."""
    metric, result = data.primary, other.result
    if result.difference is None:
        return f"The next is {other.label}; how far it is behind was not computed."
    sign = -1.0 if metric.higher_is_better else 1.0
    by = number(max(0.0, sign * result.difference), metric.unit)
    text = f"The next, {other.label}, is {by} behind"
    if result.difference_low is None or result.difference_high is None:
        return f"{text}, on too few questions for an interval."
    low, high = sorted((sign * result.difference_low, sign * result.difference_high))
    return f"{text} (95 % interval of that difference: {interval(low, high, metric.unit)})."
