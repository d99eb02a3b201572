"""Charts of rows of bars or dots: intervals, metrics, full scores, times, stages, effects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Literal, NamedTuple

import numpy as np
import polars as pl
from markupsafe import Markup

from rag_assay.evals.judging.entailment.judge import SPENT
from rag_assay.evals.reporting import display, limits
from rag_assay.evals.reporting.caveats import interval_words
from rag_assay.evals.reporting.charts.marks import (
    COUNT,
    BarColumn,
    BarValue,
    Scale,
    bar_table,
    column,
    domain,
)
from rag_assay.evals.reporting.charts.marks import written as written_value
from rag_assay.evals.reporting.data import MetricInfo, ReportData
from rag_assay.evals.reporting.effects import AxisEffect, AxisTable
from rag_assay.evals.reporting.limits import EFFECT_METRICS
from rag_assay.evals.reporting.rating_scores import ScoredAnswers, written
from rag_assay.evals.reporting.sections import Column, Table
from rag_assay.evals.reporting.standings import CellStanding, RankedResult, Result, Subset, values_of
from rag_assay.evals.reporting.texts import Language, Words, metric_title, read_texts, several, words_in
from rag_assay.evals.statistics.bootstrap import UNIT, bootstrap, intervals
from rag_assay.evals.statistics.effects import over_contexts

Place = Literal["leader", "tied", "within", "apart", "unranked"]


def place_of(entry: RankedResult, leader: RankedResult | None) -> Place:
    if entry.rank is None or leader is None:
        return "unranked"
    if entry is leader:
        return "leader"
    if entry.result.within_margin:
        return "within"
    return "tied" if entry.tied else "apart"


INTERVALS = read_texts("intervals")  # of the chart of intervals, which the app shows in German too


def intervals_figure(
    data: ReportData, entries: Sequence[RankedResult], cells: int, language: Language = "en"
) -> Table | None:
    """Return the entries that have a value, in their order; cells: how many the whole leaderboard has."""
    metric = data.primary
    valued = [entry for entry in entries if entry.result.value is not None]
    shown = valued[: limits.CHART_ROWS]
    if not shown:
        return None
    words, leader = words_in(INTERVALS, language), leader_of(shown)
    band = (leader.result.low, leader.result.high) if leader else (None, None)
    drawn = column(
        Column(metric_title(metric.title, language), metric.unit, data.interval),
        [_interval_value(entry, place_of(entry, leader), words) for entry in shown],
        metric.unit,
        grid="chart-intervals-0",
        bounds=metric.bounds,
        band=band,
    )
    is_stored = language == "en"  # the sentence about intervals is
    method = data.interval if is_stored else interval_words(data.clusters, data.seed, language)
    places = [place_of(entry, leader) for entry in valued]
    about = _intervals_about(data, places, drawn.scale, method, words)
    if len(entries) < cells and metric.kind == "retrieval":
        about += words("shared")
    more = len(valued) - len(shown)
    chart = bar_table(
        "chart-intervals",
        words("title", title=metric.title),
        about,
        (words("cell"), [entry.label for entry in shown]),
        [drawn],
        several(words, "left_out", more) if more else "",
        frozenset(at for at, entry in enumerate(shown) if entry is leader),
    )
    return replace(chart, row_pipelines=[entry.cells for entry in shown])


def small_bars(metric: MetricInfo, entries: Sequence[RankedResult]) -> Mapping[str, Markup]:
    """Return cell -> the interval of the first metric, drawn small."""
    found = [entry for entry in entries if entry.result.value is not None]
    if not found:
        return {}
    ends = [end for entry in found for end in (*_ends(entry.result), entry.result.value)]
    scale = Scale(*domain(ends, metric.bounds), 3, 97)
    leader = leader_of(found)
    bars = {}
    for entry in found:
        at = [scale.at(end) for end in _ends(entry.result) if end is not None]
        line = Markup('<line x1="{}" x2="{}" y1="7" y2="7"/>').format(*at) if len(at) == 2 else ""
        bar = Markup(
            '<svg viewBox="0 0 100 14" width="100" height="14" class="{}" aria-hidden="true">{}'
            '<circle cx="{}" cy="7" r="3.5"/></svg>'
        ).format(place_of(entry, leader), line, scale.at(entry.result.value or 0.0))
        bars.update(dict.fromkeys(entry.cells, bar))
    return bars


def leader_of(entries: Sequence[RankedResult]) -> RankedResult | None:
    return next((entry for entry in entries if entry.rank is not None), None)


def _ends(result: Result) -> tuple[float | None, float | None]:
    """A cell without a rank spans its worst to its best case."""
    if result.covered:
        return result.low, result.high
    if result.worst is None or result.best is None:
        return None, None
    return min(result.worst, result.best), max(result.worst, result.best)


def _interval_value(entry: RankedResult, place: Place, words: Words) -> BarValue:
    low, high = _ends(entry.result)
    small = () if entry.result.covered else (words("worst_case"),)
    sign = {"tied": " ≈", "within": " =", "unranked": "†"}.get(place, "")
    return BarValue(entry.result.value, low, high, small, place, sign=sign)


def _intervals_about(
    data: ReportData, places: Sequence[Place], scale: Scale, interval: str, words: Words
) -> str:
    said = [words("lines", interval=interval)]
    if "leader" in places:
        said[0] += words("band")
        near = [several(words, name, n) for name in ("tied", "within") if (n := places.count(name))]
        said.append(("; ".join(near) or words("apart")) + words("differences"))
    if "unranked" in places:
        said.append(words("unranked"))
    if scale.low > 0 or scale.high < 0:
        said.append(words("axis", low=display.quantity(scale.low, data.primary.unit)))
    return ". ".join(said) + "."


def metrics_figure(data: ReportData, subset: Subset, labels: Mapping[str, str]) -> Table | None:
    """Return the leading cells by every metric that is no cost; None where there are not two of either."""
    standings = subset.standings[: limits.METRICS_ROWS]
    measured = [one for one in data.metrics if one.kind != "cost" and _known(subset.standings, one)]
    metrics = measured[: limits.METRICS_COLUMNS]
    if len(metrics) < 2 or len(standings) < 2:
        return None
    names = [labels.get(one.cell.key, one.cell.key) for one in standings]
    further = len(subset.standings) - len(standings)
    chart = bar_table(
        "chart-metrics",
        "All metrics",
        _metrics_about(metrics, subset, labels),
        ("Cell", names),
        [_metric_column(one, standings, subset) for one in metrics],
        display.left_out(display.IN_ROWS, cell=further, metric=len(measured) - len(metrics)),
        frozenset({0} if standings[0].rank == 1 else ()),
    )
    return replace(chart, row_pipelines=[(one.cell.key,) for one in standings])


def _known(standings: Sequence[CellStanding], metric: MetricInfo) -> dict[str, float]:
    found = ((one.cell.key, one.results.get(metric.name)) for one in standings)
    return {key: one.value for key, one in found if one and one.covered and one.value is not None}


def _metric_column(metric: MetricInfo, standings: Sequence[CellStanding], subset: Subset) -> BarColumn:
    note = f"n = {subset.n(metric)}" + ("" if metric.higher_is_better else ", lower is better")
    figures = [_metric_value(one.results.get(metric.name)) for one in standings]
    return column(Column(metric.title, note, metric.explanation), figures, metric.unit)


def _metric_value(found: Result | None) -> BarValue:
    if found is None:
        return BarValue(None, why="not measured in this cell")
    if found.value is None:
        return BarValue(None, why="no question has a value")
    if not found.covered:
        return BarValue(found.value, sign="†", style="unranked")
    return BarValue(found.value, found.low, found.high)


def _metrics_about(metrics: Sequence[MetricInfo], subset: Subset, labels: Mapping[str, str]) -> str:
    best: dict[str, list[str]] = {}
    for metric in metrics:
        known = _known(subset.standings, metric)
        first = (max if metric.higher_is_better else min)(known, key=known.__getitem__)
        best.setdefault(labels.get(first, first), []).append(metric.title)
    named = "; ".join(f"{name} by {display.listed(titles, 4)}" for name, titles in best.items())
    return (
        "The leading cells in the order of the leaderboard, by every metric: bars begin at 0, a line is the "
        f"interval. The best means: {named}. Where lines overlap, that may be chance."
    )


_NEAR = 1e-9
FEWEST = 0.005  # share of all values that are full, below which the best value is no score that is reached


class Shares(NamedTuple):
    """How often a metric reached its best value; found: chunking -> share with its interval."""

    title: str
    best: str
    about: str
    found: dict[str, BarValue]


def full_scores_figure(data: ReportData, subset: Subset) -> Table | None:
    """Return the share of best values by chunking; None where nothing reaches them."""
    every = [*_of_people(data), *_of_metrics(data, subset)]
    shown = every[: limits.METRICS_COLUMNS]
    every_name = sorted({name for one in shown for name in one.found}, key=display.natural)
    names = every_name[: limits.FULL_SCORE_ROWS]
    if len(names) < 2:
        return None
    none = BarValue(None, why="not in equal contexts with the others")
    heads = [Column(one.title, one.best, one.about) for one in shown]
    figures = ([one.found.get(name, none) for name in names] for one in shown)
    columns = [column(head, own, "%") for head, own in zip(heads, figures, strict=True)]
    further = {"chunking": len(every_name) - len(names), "metric": len(every) - len(shown)}
    return bar_table(
        "chart-full-scores",
        "Full score by chunking",
        _full_scores_about(shown, names),
        ("Chunking", names),
        columns,
        display.left_out("they are on the leaderboard", **further),
    )


def _full_scores_about(shown: Sequence[Shares], names: Sequence[str]) -> str:
    first = shown[0]
    values = {name: one.value for name in names if (one := first.found.get(name)) and one.value is not None}
    best = max(values, key=values.__getitem__)
    least = min(values, key=values.__getitem__)
    words = f"{best} most often ({written_value(values[best], '%')})"
    if values[best] > values[least]:
        words += f", {least} least ({written_value(values[least], '%')})"
    return (
        "How many get the best value there is: of a mean, half as good everywhere and good in half of all "
        f"cases look alike. By {first.title}, {words}. Of metrics, chunkings are compared in equal contexts."
    )


def _of_metrics(data: ReportData, subset: Subset) -> Iterator[Shares]:
    """Human ratings are left out: `_of_people` has them."""
    of_people = {one.name for one in data.people.criteria()} if data.people else set()
    for metric in data.metrics:
        if metric.kind != "cost" and metric.ideal is not None and metric.name not in of_people:
            found = _of_metric(data, subset, metric)
            if found:
                best = f"at {written(metric.ideal)}"
                yield Shares(metric.title, best, metric.explanation, found)


def _of_metric(data: ReportData, subset: Subset, metric: MetricInfo) -> dict[str, BarValue]:
    values = values_of(data, subset, metric)
    found = values.along("chunking") if values else None
    if values is None or found is None:
        return {}
    crossed, table = found
    table[np.isnan(table).any(axis=2)] = np.nan
    full = np.where(np.isnan(table), np.nan, np.abs(table - (metric.ideal or 0.0)) < _NEAR)
    of = int((~np.isnan(full[:, :, 0])).sum())
    if not of or np.nanmean(full) < FEWEST:
        return {}
    counts = np.nansum(full, axis=(0, 1)).astype(int).tolist()
    means = intervals(over_contexts(full), data.seed, data.clusters.codes(values.questions), UNIT)
    return {
        level: _share_value(one.mean, one.low, one.high, n, of)
        for level, one, n in zip(crossed.levels[0], means, counts, strict=True)
        if one is not None
    }


def _share_value(mean: float, low: float | None, high: float | None, n: int, of: int) -> BarValue:
    hundred = [None if one is None else 100 * min(1.0, max(0.0, one)) for one in (low, high)]
    return BarValue(100 * mean, hundred[0], hundred[1], (f"{n} of {of}",))


def _of_people(data: ReportData) -> Iterator[Shares]:
    for answers in data.people.criteria() if data.people else ():
        found = {name: _given(answers, name, data) for name in answers.levels("chunking")}
        if len(found) > 1:
            best = f"at {written(answers.anchors[0])}"
            yield Shares(f"{answers.title} by people", best, answers.criterion.ask, found)


def _given(answers: ScoredAnswers, name: str, data: ReportData) -> BarValue:
    chosen = (answers.rows["chunking"] == name).fill_null(value=False).to_numpy()
    full = (answers.grades[chosen] == 0).astype(np.float64)
    questions = answers.rows["question_id"].filter(pl.Series(chosen)).to_list()
    mean = bootstrap(full, data.seed, data.clusters.codes(questions), UNIT)
    assert mean is not None  # noqa: S101 -- a level has answers
    return _share_value(mean.mean, mean.low, mean.high, int(full.sum()), len(full))


def latencies_figure(data: ReportData) -> Table | None:
    """Return time and tokens of each generator; None where there are no answers."""
    metrics = [one for one in data.metrics if one.kind == "cost" and not one.of_rankings]
    timed = next((one for one in metrics if one.unit == "s"), None)
    if timed is None:
        return None
    cells = data.leaderboard.select("cell", "generator").unique("cell").drop_nulls()
    value, metric = pl.col("value"), pl.col("metric")
    good = (pl.col("status") == "ok") & value.is_finite() & metric.is_in([one.name for one in metrics])
    rows = data.scores.filter(good).join(cells, on="cell")
    of_first = rows.filter(metric == timed.name).group_by("generator").agg(value.median())
    medians = dict(of_first.sort("value", "generator").iter_rows())
    shown = list(medians)[: limits.LATENCY_ROWS]
    if not shown:
        return None
    columns = [_cost_columns(data, rows.filter(metric == one.name), one, shown) for one in metrics]
    return bar_table(
        "chart-latencies",
        "Time of each generator",
        _latencies_about(medians),
        ("Generator", shown),
        [*chain.from_iterable(columns)],
        display.left_out("they are slower, and in the table below", generator=len(medians) - len(shown)),
    )


def _cost_columns(
    data: ReportData, rows: pl.DataFrame, metric: MetricInfo, names: Sequence[str]
) -> Iterator[BarColumn]:
    value, none = pl.col("value"), BarValue(None, why="no answer has a value")
    late = value.quantile(0.95, "linear").alias("95th percentile")
    of_generators = rows.group_by("generator").agg(pl.len(), value.median().alias("median"), late)
    known = of_generators.rows_by_key("generator", named=True, unique=True)
    means_of = rows.group_by("question_id", "generator").agg(value.mean())
    wide = means_of.pivot(on="generator", index="question_id", values="value").sort("question_id")
    own = [name for name in names if name in known]
    codes = data.clusters.codes(wide["question_id"].to_list())
    table = wide.select(own).to_numpy().astype(np.float64)
    means = dict(zip(own, intervals(table, data.seed, codes), strict=True))

    def mean(name: str) -> BarValue:
        one = means.get(name)
        if one is None:
            return none
        low = None if one.low is None else max(0.0, one.low)
        return BarValue(one.mean, low, one.high, (f"n = {display.count(known[name]['len'])}",))

    shown = {
        what: [BarValue(known[name][what]) if name in known else none for name in names]
        for what in (("median", "95th percentile") if metric.unit == "s" else ())
    }
    for what, figures in {**shown, "mean": [mean(name) for name in names]}.items():
        note = f"{what}, {metric.unit}" if metric.unit else what
        yield column(Column(metric.title, note, metric.explanation), figures, metric.unit)


def _latencies_about(medians: Mapping[str, float]) -> str:
    """medians: seconds of each, the fastest first"""
    (fastest, first), *_, (slowest, last) = [*medians.items(), *medians.items()]
    opening = f"{fastest} answers in {display.quantity(first, 's')} (median)"
    if len(medians) > 1 and display.quantity(first, "s") == display.quantity(last, "s"):
        opening = f"All generators answer in {display.quantity(first, 's')} (median)"
    elif len(medians) > 1:
        longer = f", {display.times(last / first)} times as long" if first > 0 else ""
        slow = f"{slowest} takes {display.quantity(last, 's')}{longer}"
        opening = f"{fastest} is the fastest, {display.quantity(first, 's')} (median); {slow}"
    return f"{opening}. Over all answers that were given; what failed has no time."


COLUMNS = ("calls", "seconds", "read", "written")
STAGE = "stage"  # what a statement is of that says what a stage took


def stages_figure(data: ReportData) -> Table | None:
    """Return calls, seconds and tokens of each judge and stage; None where no judge works in stages."""
    found = _spent(data)
    if found is None or not found.height:
        return None
    shown = found.head(limits.STAGE_ROWS)
    several_judges = shown["judge"].n_unique() > 1
    named = shown.select("judge", "stage").rows()
    names = [f"{judge} · {stage}" if several_judges else stage for judge, stage in named]
    heads = [Column("Calls"), Column("Time", "sum over calls, s")]
    heads += [Column("Tokens read", "sum"), Column("Tokens written", "sum")]
    columns = [
        column(head, [BarValue(float(one)) for one in shown[name]], "s" if name == "seconds" else COUNT)
        for head, name in zip(heads, COLUMNS, strict=True)
    ]
    seconds = shown["seconds"].sum()
    slowest = shown.sort("seconds", descending=True).row(0, named=True)
    share = display.percent(slowest["seconds"] / seconds) if seconds else "–"
    about = (
        f"Of {display.count(int(shown['calls'].sum()))} calls, {slowest['stage']} of {slowest['judge']} "
        f"takes {share} of the time. Calls run side by side: the sum of their seconds is more than a clock "
        "would show. What the cache gave counts as when it was paid."
    )
    rest = display.left_out("they take less", stage=found.height - shown.height)
    title = "What the stages of judging take"
    return bar_table("chart-stages", title, about, ("Stage", names), columns, rest)


def _spent(data: ReportData) -> pl.DataFrame | None:
    """Return calls, seconds, tokens read and written of each judge and stage, then those beside stages."""
    if data.judgements is None or not data.judgements.height:
        return None
    in_stages = pl.col("statements").list.eval(pl.element().struct.field("of") == STAGE).list.any()
    marked = data.judgements.with_columns(_staged=in_stages.fill_null(value=False))
    parts = {
        name: pl.col("said").str.extract(SPENT, at).cast(pl.Float64).fill_null(0.0)
        for at, name in enumerate(COLUMNS, 1)
    }
    exploded = marked.filter("_staged").select("judge", "statements").explode("statements")
    said = exploded.select("judge", pl.col("statements").struct.unnest()).filter(pl.col("of") == STAGE)
    stages = said.select("judge", stage="text", said="reason").with_columns(**parts)
    beside = marked.filter(~pl.col("_staged") & pl.col("judge").is_in(stages["judge"].unique().to_list()))
    renamed = {"metric": "stage", "prompt_tokens": "read", "completion_tokens": "written"}
    numbers = pl.col(*COLUMNS).cast(pl.Float64).fill_null(0.0)
    others = beside.rename(renamed).select("judge", "stage", numbers)
    grouped = pl.concat([stages.drop("said"), others]).group_by("judge", "stage", maintain_order=True)
    spent = grouped.agg(pl.col(*COLUMNS).sum()).filter(pl.col("calls") > 0)
    return spent.sort("judge", maintain_order=True)


WANTED = ("hit_rate", "mrr")
"""Metrics that a reader looks for of every retriever: they are shown however many others there are."""


EffectBars = tuple[AxisEffect, Mapping[str, Markup]]  # a metric of an axis, and level -> its bar


def effect_bars(table: AxisTable) -> tuple[EffectBars, ...]:
    first, *others = table.effects
    wanted = [one for one in others if one.metric.name.partition("@")[0] in WANTED]
    rest = [one for one in others if one not in wanted]
    kept = {first.metric.name, *(one.metric.name for one in (wanted + rest)[: EFFECT_METRICS - 1])}
    found: list[EffectBars] = []
    for one in table.effects:
        if one.metric.name in kept:
            ends = zip(one.found.mean.tolist(), one.found.low.tolist(), one.found.high.tolist(), strict=True)
            rows = column(Column(""), [BarValue(*each) for each in ends]).rows
            found.append((one, {name: bar.drawn for name, (bar,) in zip(one.levels, rows, strict=True)}))
    return tuple(found)
