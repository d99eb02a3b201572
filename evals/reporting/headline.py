"""The answer of a study in one sentence that claims no more than the comparisons show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evals.reporting.data import MetricInfo, ReportData
from evals.reporting.display import interval, number, percent, quantity, several
from evals.reporting.entries import Entry, could_reach, entries
from evals.reporting.settling import settling
from evals.reporting.standings import ALL, Result, Standing, main_subset

NAMED = 2  # of the cells that cannot be told apart; the rest are counted


@dataclass(frozen=True)
class Part:
    """A run of the sentence; names of cells are set apart where the medium can."""

    text: str
    is_name: bool = False


def headline(data: ReportData) -> str:
    """Name the leading cell with its interval, and all that cannot be told apart from it.

    A cell is called the best only when every other ranked cell can be told apart from it.
    """
    return "".join(part.text for part in headline_parts(data))


def headline_parts(data: ReportData) -> tuple[Part, ...]:
    """Return the headline with the names of cells marked."""
    subset = main_subset(data)
    if not subset.standings:
        return (Part("No cell was run, so there is nothing to compare."),)
    metric = data.primary
    found = entries(data, subset)
    questions = _questions(subset.n(metric), subset.name)
    ranked = [entry for entry in found if entry.rank is not None]
    if not ranked:
        return (Part(_nothing_ranked(subset.standings, metric, questions)),)
    leader, others = ranked[0], ranked[1:]
    unranked = [
        one
        for one in subset.standings
        if one.rank is None and metric.name in one.results and not one.is_ceiling(metric)
    ]
    tied = [entry for entry in others if entry.tied]
    claim = _claim(leader, [entry.label for entry in tied], len(others), metric, questions)
    more = settling(tied, subset.n(metric), metric)
    tail = Part(_caveat(unranked, leader, metric) + (f" {more}" if more else ""))
    return (Part(leader.label, is_name=True), *claim, tail)


def _questions(n: int, subset: str) -> str:
    return several(n, "question") if subset == ALL else f"{several(n, 'question')} ({subset})"


def _claim(
    leader: Entry, tied: Sequence[str], others: int, metric: MetricInfo, questions: str
) -> tuple[Part, ...]:
    value = _value(leader.result, metric)
    if tied:
        opening = Part(f" leads by {metric.title} with {value}, but ")
        apart = f"; {others - len(tied)} of {others} can" if len(tied) < others else ""
        return (opening, *_listed(tied), Part(f" cannot be told apart from it on {questions}{apart}"))
    if not others:
        return (
            Part(f" has {metric.title} {value} on {questions}, and no other ranked cell stands beside it"),
        )
    return (
        Part(
            f" is the best by {metric.title} with {value} on {questions}: "
            "every other ranked cell can be told apart from it"
        ),
    )


def _listed(names: Sequence[str]) -> tuple[Part, ...]:
    shown = names if len(names) <= NAMED + 1 else names[:NAMED]
    items = [Part(name, is_name=True) for name in shown]
    if len(names) > len(shown):
        items.append(Part(f"{len(names) - len(shown)} more"))
    parts = items[:1]
    for index, item in enumerate(items[1:], start=2):
        parts += [Part(" and " if index == len(items) else ", "), item]
    return tuple(parts)


def _value(result: Result, metric: MetricInfo) -> str:
    if result.low is None or result.high is None:
        return f"{quantity(result.value, metric.unit)} (no interval)"
    ends = interval(result.low, result.high, metric.unit)
    return f"{number(result.value, metric.unit)} [{ends}]" + (f" {metric.unit}" if metric.unit else "")


def _caveat(unranked: Sequence[Standing], leader: Entry, metric: MetricInfo) -> str:
    if not unranked:
        return "."
    verb = "has" if len(unranked) == 1 else "have"
    text = f"; {several(len(unranked), 'cell')} below 98 % coverage {verb} no rank"
    reaching = any(could_reach(one.results[metric.name], leader.result, metric) for one in unranked)
    return text + (", and might do as well." if reaching else ".")


def _nothing_ranked(standings: Sequence[Standing], metric: MetricInfo, questions: str) -> str:
    found = [(one.results.get(metric.name), one.coverage(metric) or 0.0) for one in standings]
    scored = [coverage for result, coverage in found if result and result.value is not None]
    ran = several(len(standings), "cell")
    if not scored:
        return f"No cell has a value of {metric.title} on {questions}: {ran} ran without a usable result."
    most = percent(max(scored))
    return (
        f"No cell can be ranked by {metric.title} on {questions}: "
        f"none of {ran} has 98 % coverage (the most is {most})."
    )
