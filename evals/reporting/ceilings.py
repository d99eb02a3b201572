"""What retrieval costs in answer quality: the best cell of a model beside the gold evidence and nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import polars as pl

from rag_assay.evals.reporting.data import MetricInfo, ReportData
from rag_assay.evals.reporting.display import interval, number, several, with_sign
from rag_assay.evals.reporting.standings import CellStanding, Subset, varying_axes
from rag_assay.evals.statistics.significance import paired_bootstrap

_WHAT = {"evidence": "from the gold evidence", "nothing": "from no passage at all"}


def ceiling_sentences(data: ReportData, subset: Subset) -> list[str]:
    """Say for each model with a cell that reads the evidence what its best retriever leaves to be had.

    The metric is the first of answers. Differences are means over the questions of both cells, with the
    interval of the paired bootstrap. The best retrieved cell is chosen on the same questions.
    """
    metric = next((one for one in data.metrics if one.kind == "answer"), None)
    if metric is None:
        return []
    by_model: dict[str, list[CellStanding]] = {}
    for one in subset.standings:
        facts = (data.generators or {}).get(one.cell.generator or "")
        result = one.results.get(metric.name)
        if facts and facts.model and result and result.value is not None:
            by_model.setdefault(facts.model, []).append(one)
    found = (_sentence(data, subset, metric, model, cells) for model, cells in by_model.items())
    return [sentence for sentence in found if sentence]


def _sentence(
    data: ReportData, subset: Subset, metric: MetricInfo, model: str, cells: Sequence[CellStanding]
) -> str | None:
    of = {what: [one for one in cells if _reads(data, one) == what] for what in ("ranking", *_WHAT)}
    if not of["ranking"] or not of["evidence"]:
        return None
    best = _best(of["ranking"], metric)
    label = best.cell.label(varying_axes(subset.standings))
    chosen = f", the best of {several(len(of['ranking']), 'cell')}" if len(of["ranking"]) > 1 else ""
    parts = [f"{number(_value(best, metric), metric.unit)} from retrieved passages ({label}{chosen})"]
    for what, words in _WHAT.items():
        if of[what]:
            other = _best(of[what], metric)
            parts.append(
                f"{number(_value(other, metric), metric.unit)} {words} "
                f"({_difference(data, metric, other, best)})"
            )
    listed = "; ".join(parts)
    return f"{metric.title} of {model}: {listed}; differences are to the retrieved passages."


def _difference(data: ReportData, metric: MetricInfo, one: CellStanding, other: CellStanding) -> str:
    rows = data.values.filter(pl.col("metric") == metric.name).drop_nulls("value")
    first, second = (
        dict(rows.filter(pl.col("cell") == each.cell.key).select("question_id", "value").iter_rows())
        for each in (one, other)
    )
    both = sorted(first.keys() & second.keys())
    if not both:
        return "on no common question"
    apart = np.array([[first[question] - second[question]] for question in both], np.float64)
    found = paired_bootstrap(apart, data.seed, clusters=data.clusters.codes(both))
    low, high = float(found.low[0]), float(found.high[0])
    ends = "no interval" if math.isnan(low) else interval(low, high, metric.unit)
    return f"{with_sign(float(found.mean[0]), metric.unit)} [{ends}] on {several(len(both), 'question')}"


def _reads(data: ReportData, standing: CellStanding) -> str:
    return (data.generators or {})[standing.cell.generator or ""].reads


def _best(cells: Sequence[CellStanding], metric: MetricInfo) -> CellStanding:
    sign = 1 if metric.higher_is_better else -1
    return max(cells, key=lambda one: (one.results[metric.name].covered, sign * _value(one, metric)))


def _value(standing: CellStanding, metric: MetricInfo) -> float:
    value = standing.results[metric.name].value
    return 0.0 if value is None else value  # cells without a value are not among those that are compared
