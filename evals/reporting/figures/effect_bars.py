"""The means of the levels of an axis as bars in the table of its effects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rag_assay.evals.reporting.charts.bars import BarColumn, BarValue, ColumnHeading, Mark, column
from rag_assay.evals.reporting.effects import AxisEffect, AxisTable
from rag_assay.evals.reporting.limits import EFFECT_METRICS

WANTED = ("hit_rate", "mrr")
"""Metrics that a reader looks for of every retriever: they are shown however many others there are."""


class EffectBars(NamedTuple):
    """A metric of an axis with what is drawn of it: level -> its bar."""

    effect: AxisEffect
    column: BarColumn
    marks: Mapping[str, Mark | str]


def effect_bars(table: AxisTable) -> tuple[EffectBars, ...]:
    """Return the metrics of an axis that are shown, first the one that ranks."""
    first, *others = table.effects
    wanted = [one for one in others if one.metric.name.partition("@")[0] in WANTED]
    rest = [one for one in others if one not in wanted]
    kept = {first.metric.name, *(one.metric.name for one in (wanted + rest)[: EFFECT_METRICS - 1])}
    return tuple(_bars(one) for one in table.effects if one.metric.name in kept)


def _bars(effect: AxisEffect) -> EffectBars:
    found, metric = effect.found, effect.metric
    figures = [
        BarValue(float(found.mean[at]), float(found.low[at]), float(found.high[at]))
        for at in range(len(effect.levels))
    ]
    head, marks = column(ColumnHeading(metric.title, metric.unit), figures)
    return EffectBars(effect, head, dict(zip(effect.levels, marks, strict=True)))
