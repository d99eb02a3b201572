"""Heat maps: chunking x retriever, pairs of axes, and questions x chunkings."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import numpy as np
from markupsafe import Markup

from rag_assay.evals.reporting import limits
from rag_assay.evals.reporting.charts.marks import heat
from rag_assay.evals.reporting.data import MetricInfo, ReportData
from rag_assay.evals.reporting.display import (
    interval,
    left_out,
    link_of,
    natural,
    number,
    p_value,
    percent,
    several,
    truncate,
    with_sign,
)
from rag_assay.evals.reporting.effects import (
    AxisEffect,
    AxisPair,
    AxisTable,
    Effects,
    effect_words,
    pair_words,
    subset_words,
)
from rag_assay.evals.reporting.figures.bars import effect_bars
from rag_assay.evals.reporting.sections import (
    Block,
    Column,
    Details,
    PageHeading,
    PageParagraph,
    PageSection,
    Row,
    Table,
    TableFigure,
    Tiles,
    bold,
    explain,
    mark,
    missing,
    numbers,
    section,
)
from rag_assay.evals.reporting.standings import Result, Subset, values_of
from rag_assay.evals.reporting.texts import CHARTS, Language, metric_title, words_in
from rag_assay.evals.reporting.texts import several as several_in
from rag_assay.evals.statistics.bootstrap import intervals
from rag_assay.evals.statistics.effects import Levels, over_contexts
from rag_assay.evals.statistics.resampling import Floats
from rag_assay.evals.statistics.significance import ALPHA


@dataclass(frozen=True)
class Effect:
    """Means over the other axis; over: how many of its `of` names have a value for all of `means`."""

    means: Mapping[str, float]
    over: int
    of: int

    @property
    def span(self) -> float | None:
        return max(self.means.values()) - min(self.means.values()) if len(self.means) > 1 else None


def matrix_section(data: ReportData, subset: Subset) -> PageSection | None:
    """Return a heat map of each retrieval metric and embedder."""
    embedders = sorted({one.cell.embedder or "" for one in subset.standings if one.cell.retriever})
    metrics = [metric for metric in data.metrics if metric.kind == "retrieval"]
    several = len(embedders) > 1
    made = (matrix(subset, metric, one, several) for metric in metrics for one in embedders)
    found = [one for one in made if one]
    wide = data.leaderboard["retriever"].n_unique() > 4
    return section("matrix", [Tiles(found, wide=wide)]) if found else None


def matrix(subset: Subset, metric: MetricInfo, embedder: str, several: bool) -> Sequence[Block]:
    """Return a heading, the heat map of chunkings and retrievers, and their effects; empty without any."""
    results: dict[tuple[str, str], Result] = {}
    for standing in subset.standings:
        cell, result = standing.cell, standing.results.get(metric.name)
        place = (cell.chunking or "", cell.retriever or "")
        # A generator cannot change a retrieval metric: the first cell of a place stands for all.
        if result and (cell.embedder or "") == embedder and not (place in results and results[place].covered):
            results[place] = result
    if not results:
        return ()
    chunkings = sorted({chunking for chunking, _ in results}, key=natural)
    retrievers = sorted({retriever for _, retriever in results}, key=natural)
    values = {place: r.value for place, r in results.items() if r.covered and r.value is not None}
    by_chunking = effect(values, chunkings, retrievers)
    by_retriever = effect({place[::-1]: value for place, value in values.items()}, retrievers, chunkings)

    def mean(of: Effect, name: str, why: str) -> TableFigure:
        known = name in of.means
        return TableFigure(number(of.means[name], metric.unit), style="mean") if known else missing(why)

    gap = "no chunking has a value for every retriever"
    rows: list[Row] = [
        (
            one,
            *(_square(results.get((one, other)), values.values(), metric) for other in retrievers),
            mean(by_chunking, one, "no retriever has a value for every chunking"),
        )
        for one in chunkings
    ]
    table = Table(
        f"{metric.title} by chunking and retriever",
        [Column(""), *_heat_columns(retrievers)],
        rows,
        style="heat",
        foot=[("Mean", *(mean(by_retriever, one, gap) for one in retrievers), "")],
    )
    words = [effect_sentence(by_chunking, "chunking", "retriever", metric)]
    words.append(effect_sentence(by_retriever, "retriever", "chunking", metric))
    of = f" · {embedder or 'no embedder'}" if several else ""
    return PageHeading(metric.heading + of), table, PageParagraph(" ".join(words), "effect")


def effect_sentence(effect: Effect, axis: str, other: str, metric: MetricInfo) -> str:
    if effect.span is None:
        why = "one name on this axis" if effect.over else f"no {other} has a value for all of them"
        return f"The effect of the {axis} cannot be given: {why}."
    lowest = min(effect.means, key=lambda name: effect.means[name])
    highest = max(effect.means, key=lambda name: effect.means[name])
    over = several(effect.over, other) + (f" of {effect.of}" if effect.over < effect.of else "")
    return (
        f"The {axis} moves {metric.title} by {number(effect.span)}: "
        f"from {number(effect.means[lowest])} ({lowest}) to {number(effect.means[highest])} ({highest}), "
        f"each the mean over {over}."
    )


def effect(values: Mapping[tuple[str, str], float], names: Sequence[str], others: Sequence[str]) -> Effect:
    """Average over the others for which every name has a value, so that means compare the same."""
    common = [other for other in others if all((name, other) in values for name in names)]
    means = {name: fmean(values[name, other] for other in common) for name in names} if common else {}
    return Effect(means, len(common), len(others))


def _square(result: Result | None, shown: Collection[float], metric: MetricInfo) -> TableFigure:
    if result is None or result.value is None:
        return missing("not run" if result is None else "no question has a value")
    text = number(result.value, metric.unit)
    if not result.covered:
        why = f"coverage {percent(result.coverage)}: left out of the means"
        return TableFigure(f"{text}†", why=why, style="low")
    level = heat(result.value, min(shown), max(shown), metric.higher_is_better)
    ends = interval(result.low, result.high, metric.unit)
    return TableFigure(text, (ends,), f"n = {result.n}", style=f"h{level}")


def effects_section(found: Effects, language: Language = "en") -> PageSection | None:
    """Return the effect of each axis, and of two axes together; None where no two levels can be compared."""
    if not found.axes:
        return None
    blocks: list[Block] = []
    words = words_in(CHARTS, language)
    for table in found.axes:
        first = table.effects[0]
        of = "" if table.subset == "all" else subset_words(table.subset, language)
        blocks.append(PageHeading(table.axis.capitalize(), of))
        blocks += [effect_words(first, language), _axis_table(table, language)]
        if table.groups:
            note = PageParagraph(explain("axis-groups", language, most=limits.EFFECT_GROUPS))
            title = words("by_group", title=first.metric.title)
            blocks.append(Details(title, [_groups_table(table, language), note]))
    if found.pairs:
        kept = tuple(pair for pair in found.pairs if not is_matrix(pair))
        said = [pair_words(pair, language) for pair in found.pairs if is_matrix(pair)]
        figures = pair_figures(replace(found, pairs=kept), language)
        blocks += [PageHeading(words("together")), *said, *figures]
    return section("effects", blocks, language=language)


def _axis_table(table: AxisTable, language: Language) -> Table:
    words, bars, axis = words_in(CHARTS, language), effect_bars(table), table.axis
    first = table.effects[0]
    columns = [Column(axis.capitalize(), style="cell")]
    for one, _ in bars:
        unit = "" if one.metric.heading == one.metric.title else f"{one.metric.unit}, "
        title, note = metric_title(one.metric.title, language), f"{unit}n = {one.found.n}"
        columns.append(Column(title, note, is_number=True, style="with-bar"))
    columns[2:2] = numbers(words("difference"))
    rows: list[Row] = []
    for at in first.best_first():
        level = first.levels[at]
        leading, *others = (_bar_figure(*one, level, language, is_first=one is bars[0]) for one in bars)
        rows.append([level, leading, _level_difference(first, at, language), *others])
    return Table(words("effect", axis=words(f"axis_{axis}")), columns, rows, style="effects")


def _bar_figure(
    one: AxisEffect, bars: Mapping[str, Markup], level: str, language: Language, *, is_first: bool
) -> TableFigure:
    words = words_in(CHARTS, language)
    if level not in one.levels:
        return missing(words("not_compared", title=one.metric.title))
    at = one.levels.index(level)
    text = number(one.found.mean[at], one.metric.unit)
    if not is_first:
        text = bold(text) if at == one.found.best else mark(one.found.standing(at), language) + text
    ends = interval(one.found.low[at], one.found.high[at], one.metric.unit, words("to"))
    return TableFigure(text, (ends,), drawn=bars[level])


def _level_difference(one: AxisEffect, at: int, language: Language) -> str | TableFigure:
    words, found, unit = words_in(CHARTS, language), one.found, one.metric.unit
    if at == found.best:
        return words("best")
    text = with_sign(found.difference[at], unit)
    ends = interval(found.difference_low[at], found.difference_high[at], unit, words("to"))
    return TableFigure(mark(found.standing(at), language) + text, (ends, p_value(found.p[at])))


def _groups_table(table: AxisTable, language: Language) -> Table:
    words, first = words_in(CHARTS, language), table.effects[0]

    def mean(found: Levels, at: int) -> str:
        text = number(found.mean[at], first.metric.unit)
        return bold(text) if at == found.best else mark(found.standing(at), language) + text

    rows = []
    for group in table.groups:
        named = Markup('<span class="unit">{}</span> {}').format(words(group.column), group.group)
        found = group.effect.found
        rows.append((named, str(found.n), *(mean(found, at) for at in range(len(first.levels)))))
    columns = [Column(words("questions"), style="cell"), *numbers("n", *first.levels)]
    caption = words("by_axis_and_group", title=first.metric.title, axis=words(f"axis_{table.axis}"))
    return Table(caption, columns, rows, style="groups")


def is_matrix(pair: AxisPair) -> bool:
    """Return whether the section of chunkings and retrievers shows the same means."""
    is_whole = not pair.crossing.unused and len(pair.crossing.contexts) == 1
    return pair.axes == ("chunking", "retriever") and pair.metric.kind == "retrieval" and is_whole


def pair_figures(effects: Effects, language: Language = "en") -> tuple[Table, ...]:
    """Return a heat map of each pair of axes, significant ones first."""
    ordered = sorted(effects.pairs, key=lambda pair: not pair.p < ALPHA)
    return tuple(_figure(pair, language) for pair in ordered)


def _figure(pair: AxisPair, language: Language) -> Table:
    words = words_in(CHARTS, language)
    one, other = (words(f"axis_{axis}") for axis in pair.axes)
    ordered = (sorted(range(len(names)), key=lambda at: natural(names[at])) for names in pair.levels)
    rows_of, columns_of = (places[: limits.PAIR_LEVELS] for places in ordered)
    means = pair.found.means
    shown = means[np.ix_(rows_of, columns_of)]
    ends = (float(shown.min()), float(shown.max()))

    def square(row: int, column: int) -> TableFigure:
        low, high = float(pair.found.low[row, column]), float(pair.found.high[row, column])
        level = heat(float(means[row, column]), *ends, higher_is_better=pair.metric.higher_is_better)
        small = () if math.isnan(low) else (interval(low, high, pair.metric.unit, words("to")),)
        text = written(means[row, column])
        is_best = row == pair.found.best[column].level
        return TableFigure(bold(text) if is_best else text, small, style=f"h{level}")

    def written(value: float) -> str:
        return number(float(value), pair.metric.unit)

    rows: list[Row] = []
    for row in rows_of:
        mean = TableFigure(written(means[row].mean()), style="mean")
        rows.append((pair.levels[0][row], *(square(row, column) for column in columns_of), mean))
    further = sum(len(names) for names in pair.levels) - len(rows_of) - len(columns_of)
    asked = several_in(words, "n_questions", pair.found.n)
    return Table(
        words("pair", one=one.capitalize(), other=other, title=pair.metric.title),
        [Column(one.capitalize()), *_heat_columns([pair.levels[1][at] for at in columns_of], words("mean"))],
        rows,
        several_in(words, "left_levels", further) if further else "",
        "heat",
        "chart-pair-" + "-".join(pair.axes),
        words("pair_about", words=pair_words(pair, language), questions=asked, one=one, other=other),
        [(words("mean"), *(written(means[:, column].mean()) for column in columns_of), "")],
    )


def _heat_columns(names: Sequence[str], mean: str = "Mean") -> list[Column]:
    return [*numbers(*names), Column(mean, is_number=True, style="mean")]


TEXT = 120  # characters of a question
_ALIKE = 1e-9


def questions_figure(data: ReportData, subset: Subset) -> Table | None:
    """Return the first metric by question and chunking, means over equal contexts; None without these.

    Of many questions those are shown on which chunkings differ most.
    """
    metric = data.primary
    values = values_of(data, subset, metric)
    along = values.along("chunking") if values else None
    if values is None or along is None:
        return None
    crossed, table = along[0], over_contexts(along[1])
    known = np.flatnonzero(~np.isnan(table).any(axis=1))
    if not len(known):
        return None
    order = sorted(range(len(crossed.levels[0])), key=lambda level: natural(crossed.levels[0][level]))
    table, names = table[known][:, order], [crossed.levels[0][level] for level in order]
    questions = [values.questions[one] for one in known]
    columns = names[: limits.QUESTION_COLUMNS]
    sign = 1.0 if metric.higher_is_better else -1.0
    spread, means = np.ptp(table, axis=1), table.mean(axis=1)
    widest = np.lexsort((np.arange(len(known)), -spread))[: limits.QUESTION_ROWS]
    chosen = sorted(widest.tolist(), key=lambda one: (sign * means[one], questions[one]))
    shown = table[chosen][:, : len(columns)]
    ends = (float(shown.min()), float(shown.max()))
    texts = {row["question_id"]: row for row in data.questions.iter_rows(named=True)}
    figures = table[:, : len(columns)]
    rows = [_row(questions[one], texts, figures[one], means[one], metric, ends) for one in chosen]
    found = intervals(table, data.seed, data.clusters.codes(questions), metric.bounds)
    foot = [TableFigure(number(one.mean), (interval(one.low, one.high),)) for one in found if one]
    last = f"All {len(known)} questions" if len(known) > len(rows) else "Mean"
    further = {"question": len(known) - len(rows), "chunking": len(names) - len(columns)}
    return Table(
        f"Questions and chunkings: {metric.title}",
        [Column("Question"), *_heat_columns(columns)],
        rows,
        left_out("chunkings differ less on them", **further),
        "heat texts",
        "chart-questions",
        _about(table, names, metric, len(crossed.contexts)),
        [(last, *foot[: len(columns)], "")],
    )


def _row(
    question_id: str,
    texts: Mapping[str, Mapping[str, Any]],
    values: Floats,
    mean: float,
    metric: MetricInfo,
    ends: tuple[float, float],
) -> Sequence[TableFigure]:
    question = texts.get(question_id, {"question": question_id, "language": None})
    name = Markup('<a href="{}" dir="auto" lang="{}">{}</a>').format(
        link_of(question_id), question["language"] or "", truncate(question["question"], TEXT)
    )
    levels = (heat(one, *ends, higher_is_better=metric.higher_is_better) for one in values.tolist())
    squares = [TableFigure(number(one), style=f"h{at}") for one, at in zip(values, levels, strict=True)]
    whole = TableFigure(name, why=f"{question_id}: {question['question']}")
    return whole, *squares, TableFigure(number(mean), style="mean")


def _about(table: Floats, names: Sequence[str], metric: MetricInfo, contexts: int) -> str:
    sign = 1.0 if metric.higher_is_better else -1.0
    alike = int((np.ptp(table, axis=1) < _ALIKE).sum())
    best = (sign * table).max(axis=1, keepdims=True)
    alone = (np.abs(sign * table - best) < _ALIKE).sum(axis=1) == 1
    firsts = np.argmax(sign * table, axis=1)
    counts = [int((alone & (firsts == at)).sum()) for at in range(len(names))]
    over = f"; each value is a mean over {several(contexts, 'cell')} of the chunking" if contexts > 1 else ""
    words = (
        f"The hardest questions first, the darker the better{over}. "
        f"{alike} of {several(len(table), 'question')} get the same from every chunking"
    )
    most = max(counts)
    if counts.count(most) == 1:
        words += f"; {names[counts.index(most)]} alone is the best on {most}, more than any other"
    return f"{words}."
