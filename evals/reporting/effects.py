"""The effect of each axis, what two axes do together, and where it differs by the kind of question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, islice

import numpy as np
import polars as pl

from rag_assay.evals.reporting.data import MetricInfo, ReportData
from rag_assay.evals.reporting.groups import group_of
from rag_assay.evals.reporting.limits import EFFECT_GROUPS
from rag_assay.evals.reporting.standings import Subset, subsets
from rag_assay.evals.reporting.values import Values, values_of
from rag_assay.evals.statistics.effects import Levels, effect, over_contexts
from rag_assay.evals.statistics.full_crossing import Crossing, find_crossing
from rag_assay.evals.statistics.interactions import Interaction, interaction
from rag_assay.evals.statistics.significance import holm

COLUMNS = ("type", "language", "question_set")  # of questions, by which effects are broken down


@dataclass(frozen=True, eq=False)
class AxisEffect:
    """The levels of one axis by one metric.

    axes: all on which the metric can differ
    levels: names of those of this axis; found: what is known of them, in this order
    of: how many cells there are; crossing says which of them are compared
    """

    axis: str
    axes: tuple[str, ...]
    metric: MetricInfo
    subset: str
    levels: tuple[str, ...]
    crossing: Crossing
    of: int
    found: Levels

    @property
    def best(self) -> str:
        """The name of the level with the best mean."""
        return self.levels[self.found.best]

    def best_first(self) -> list[int]:
        """Return the levels' places from the best mean to the worst."""
        sign = -1 if self.metric.higher_is_better else 1
        return sorted(range(len(self.levels)), key=lambda at: (sign * self.found.mean[at], self.levels[at]))


@dataclass(frozen=True, eq=False)
class AxisPair:
    """What two axes do together by one metric; p is adjusted for the pairs of this metric and subset."""

    axes: tuple[str, str]
    metric: MetricInfo
    subset: str
    levels: tuple[tuple[str, ...], tuple[str, ...]]
    crossing: Crossing
    found: Interaction
    p: float


@dataclass(frozen=True, eq=False)
class GroupEffect:
    """The levels of an axis on the questions of one group (of one type, say)."""

    column: str
    group: str
    effect: AxisEffect


@dataclass(frozen=True, eq=False)
class AxisTable:
    """All that is known of one axis.

    effects: by metric, the one that ranks first; none of a metric that it was not compared by
    groups: the first metric by groups of questions, where there are several
    """

    axis: str
    subset: str
    effects: tuple[AxisEffect, ...]
    groups: tuple[GroupEffect, ...]


@dataclass(frozen=True, eq=False)
class Effects:
    """The axes on which cells differ, and pairs of them."""

    axes: tuple[AxisTable, ...]
    pairs: tuple[AxisPair, ...]


@lru_cache(maxsize=2)  # a report shows them on its page, in its rows and on the terminal
def effects(data: ReportData, *, in_short: bool = False) -> Effects:
    """Return the effects of all axes with at least two levels, on all questions or, failing that, a sample.

    An axis that differs only among cells that were asked a sample is shown on that sample.

    in_short: only by the first metric of each axis, and without kinds of questions, as sentences need them: a
        tenth of the work
    """
    tables: dict[str, AxisTable] = {}
    pairs: list[AxisPair] = []
    seen: set[tuple[str, str]] = set()
    for subset in subsets(data):
        read = [(metric, values_of(data, subset, metric)) for metric in data.metrics if metric.kind != "cost"]
        known = [(metric, values) for metric, values in read if values is not None]
        for axis in dict.fromkeys(axis for _, values in known for axis in values.axes):
            if axis in tables:
                continue
            each = (_effect(data, subset, metric, values, axis) for metric, values in known)
            found = islice((one for one in each if one), 1 if in_short else None)
            if of_axis := tuple(found):
                groups = () if in_short else tuple(_groups(data, subset, of_axis[0]))
                tables[axis] = AxisTable(axis, subset.name, of_axis, groups)
        new = [one for one in _pairs(data, subset, known) if one.axes not in seen]
        seen |= {one.axes for one in new}
        pairs += new
    return Effects(tuple(tables.values()), tuple(pairs))


def _effect(
    data: ReportData, subset: Subset, metric: MetricInfo, values: Values, axis: str
) -> AxisEffect | None:
    if axis not in values.axes:
        return None
    at = values.axes.index(axis)
    crossed = find_crossing(values.places, [at])
    if crossed is None:
        return None
    levels = crossed.levels[0]
    table = over_contexts(values.crossed(crossed, [at]))
    clusters = data.clusters.codes(values.questions)
    found = effect(table, data.seed, clusters, higher_is_better=metric.higher_is_better)
    if found is None:
        return None
    found = _within(found, metric)
    return AxisEffect(axis, values.axes, metric, subset.name, levels, crossed, len(values.places), found)


def _within(found: Levels, metric: MetricInfo) -> Levels:
    """Return intervals of means that end where the metric does; those of few questions may reach further."""
    low = -np.inf if metric.bounds[0] is None else metric.bounds[0]
    high = np.inf if metric.bounds[1] is None else metric.bounds[1]
    return found._replace(low=np.clip(found.low, low, high), high=np.clip(found.high, low, high))


def _pairs(data: ReportData, subset: Subset, known: Sequence[tuple[MetricInfo, Values]]) -> list[AxisPair]:
    """Return the pairs of axes by the first metric that can differ on both."""
    found: dict[tuple[str, str], AxisPair] = {}
    for metric, values in known:
        new = []
        for one, other in combinations(range(len(values.axes)), 2):
            axes = (values.axes[one], values.axes[other])
            crossed = find_crossing(values.places, [one, other]) if axes not in found else None
            if crossed is None:
                continue
            table = over_contexts(values.crossed(crossed, [one, other]))
            clusters = data.clusters.codes(values.questions)
            result = interaction(table, data.seed, clusters, higher_is_better=metric.higher_is_better)
            if result is not None:
                levels = (crossed.levels[0], crossed.levels[1])
                new.append(AxisPair(axes, metric, subset.name, levels, crossed, result, result.p))
        adjusted = holm(np.array([pair.p for pair in new]))
        for pair, p in zip(new, adjusted, strict=True):
            found[pair.axes] = AxisPair(**{**vars(pair), "p": float(p)})
    return list(found.values())


def _groups(data: ReportData, subset: Subset, whole: AxisEffect) -> list[GroupEffect]:
    """Break the effect of an axis down by columns of the questions that have several groups, the largest."""
    values = values_of(data, subset, whole.metric)
    assert values is not None  # noqa: S101 -- there is an effect of them
    at = values.axes.index(whole.axis)
    table = over_contexts(values.crossed(whole.crossing, [at]))
    found = []
    for column in COLUMNS:
        names = dict(data.questions.select("question_id", group_of(column).alias("group")).iter_rows())
        of = np.array([names.get(question) for question in values.questions], dtype=object)
        counts = pl.Series([*of], dtype=pl.String).value_counts().iter_rows()
        sizes = {str(name): n for name, n in counts if name is not None}
        largest = sorted(sizes, key=lambda name: (-sizes[name], name))[:EFFECT_GROUPS]
        for group in largest if len(sizes) > 1 else []:
            clusters = data.clusters.codes([*np.array(values.questions)[of == group].tolist()])
            better = whole.metric.higher_is_better
            own = effect(table[of == group], data.seed, clusters, higher_is_better=better)
            if own is not None:
                own = _within(own, whole.metric)
                found.append(GroupEffect(column, group, AxisEffect(**{**vars(whole), "found": own})))
    return found
