"""The effect of each axis, what two axes do together, and both as sentences and rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations, islice
from typing import Any

import numpy as np
import polars as pl

from rag_assay.evals.reporting.contexts import BUDGETS
from rag_assay.evals.reporting.data import MetricInfo, ReportData
from rag_assay.evals.reporting.display import interval, number, p_value, with_sign
from rag_assay.evals.reporting.limits import EFFECT_GROUPS
from rag_assay.evals.reporting.standings import Subset, Values, group_of, subsets, values_of
from rag_assay.evals.reporting.texts import CHARTS, Language, listed_in, several, words_in
from rag_assay.evals.statistics.clusters import Codes
from rag_assay.evals.statistics.effects import Interaction, Levels, effect, interaction, over_contexts
from rag_assay.evals.statistics.full_crossing import Crossing
from rag_assay.evals.statistics.resampling import Floats
from rag_assay.evals.statistics.significance import ALPHA, holm

COLUMNS = ("type", "language", "question_set")  # of questions, by which effects are broken down


@dataclass(frozen=True, eq=False)
class AxisEffect:
    """The levels of one axis by one metric; found: in the order of `levels`.

    axes: all on which the metric can differ; of: number of cells; crossing: which of them are compared
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
        return self.levels[self.found.best]

    def best_first(self) -> list[int]:
        sign = -1 if self.metric.higher_is_better else 1
        return sorted(range(len(self.levels)), key=lambda at: (sign * self.found.mean[at], self.levels[at]))


@dataclass(frozen=True, eq=False)
class AxisPair:
    """Two axes by one metric; p is adjusted for the pairs of this metric and subset."""

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
    """An axis; effects: by metric, the primary one first; groups: the first metric by groups of questions."""

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

    in_short: only the first metric of each axis and no groups, for sentences: a tenth of the work
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
        new = [one for one in _axis_pairs(data, subset, known) if one.axes not in seen]
        seen |= {one.axes for one in new}
        pairs += new
    return Effects(tuple(tables.values()), tuple(pairs))


def _effect(
    data: ReportData, subset: Subset, metric: MetricInfo, values: Values, axis: str
) -> AxisEffect | None:
    along = values.along(axis)
    if along is None:
        return None
    crossed, table = along
    codes, places = data.clusters.codes(values.questions), len(values.places)
    found = compare_levels(metric, over_contexts(table), data.seed, codes, data.margin_of(metric))
    if found is None:
        return None
    return AxisEffect(axis, values.axes, metric, subset.name, crossed.levels[0], crossed, places, found)


def compare_levels(
    metric: MetricInfo, table: Floats, seed: int, clusters: Codes | None, margin: float | None = None
) -> Levels | None:
    """Return `effect`, with intervals of means within the metric's bounds."""
    found = effect(table, seed, clusters, higher_is_better=metric.higher_is_better, margin=margin)
    if found is None or metric.bounds == (None, None):
        return found
    return found._replace(low=np.clip(found.low, *metric.bounds), high=np.clip(found.high, *metric.bounds))


def _axis_pairs(
    data: ReportData, subset: Subset, known: Sequence[tuple[MetricInfo, Values]]
) -> list[AxisPair]:
    found: dict[tuple[str, str], AxisPair] = {}
    for metric, values in known:
        new = []
        for axes in combinations(values.axes, 2):
            along = values.along(*axes) if axes not in found else None
            if along is None:
                continue
            crossed, table = along
            codes = data.clusters.codes(values.questions)
            better = metric.higher_is_better
            result = interaction(over_contexts(table), data.seed, codes, higher_is_better=better)
            if result is not None:
                levels = (crossed.levels[0], crossed.levels[1])
                new.append(AxisPair(axes, metric, subset.name, levels, crossed, result, result.p))
        adjusted = holm(np.array([pair.p for pair in new]))
        for pair, p in zip(new, adjusted, strict=True):
            found[pair.axes] = replace(pair, p=float(p))
    return list(found.values())


def _groups(data: ReportData, subset: Subset, whole: AxisEffect) -> list[GroupEffect]:
    values = values_of(data, subset, whole.metric)
    along = values.along(whole.axis) if values else None
    assert values is not None and along is not None  # noqa: S101, PT018 -- there is an effect of them
    table = over_contexts(along[1])
    found = []
    for column in COLUMNS:
        names = dict(data.questions.select("question_id", group_of(column).alias("group")).iter_rows())
        of = np.array([names.get(question) for question in values.questions], dtype=object)
        counts = pl.Series([*of], dtype=pl.String).value_counts().iter_rows()
        sizes = {str(name): n for name, n in counts if name is not None}
        largest = sorted(sizes, key=lambda name: (-sizes[name], name))[:EFFECT_GROUPS]
        for group in largest if len(sizes) > 1 else []:
            clusters = data.clusters.codes([*np.array(values.questions)[of == group].tolist()])
            margin = data.margin_of(whole.metric)
            own = compare_levels(whole.metric, table[of == group], data.seed, clusters, margin)
            if own is not None:
                found.append(GroupEffect(column, group, replace(whole, found=own)))
    return found


def effects_words(found: Effects) -> list[str]:
    """Say which level of each axis is best, and which pairs of axes interact significantly."""
    axes = [effect_words(table.effects[0]) for table in found.axes]
    return axes + [pair_words(pair) for pair in found.pairs if pair.p < ALPHA]


def effect_words(effect: AxisEffect, language: Language = "en") -> str:
    words, found, unit = words_in(CHARTS, language), effect.found, effect.metric.unit
    opening = words(
        "opening",
        axis=words(f"axis_{effect.axis}"),
        best=effect.best,
        title=effect.metric.title,
        value=number(found.mean[found.best], unit),
    )
    if len(effect.crossing.contexts) > 1:
        opening += words("over", contexts=_contexts(effect, language))
    opening += _on_subset(effect.subset, language)
    others = [at for at in effect.best_first() if at != found.best]
    tied, within = (
        [effect.levels[at] for at in others if found.standing(at) == how] for how in ("tied", "within")
    )
    if within and not tied:
        text = several(words, "only_within", len(within), names=listed_in(language, within))
    elif not tied:
        last = others[-1]
        text = several(
            words,
            "worse",
            len(others),
            level=effect.levels[last],
            difference=with_sign(found.difference[last], unit),
            ends=interval(found.difference_low[last], found.difference_high[last], unit, words("to")),
        )
    else:
        how = "all_tied" if len(tied) == len(others) else "tied"
        text = several(words, how, len(tied), of=len(others), names=listed_in(language, tied))
        if within:
            text += several(words, "also_within", len(within), names=listed_in(language, within))
    return f"{opening}; {text}.{_left_out(effect, language)}"


def subset_words(name: str, language: Language) -> str:
    return name.replace("sample of", words_in(CHARTS, language)("sample_of"))


def _on_subset(name: str, language: Language) -> str:
    words = words_in(CHARTS, language)
    return "" if name == "all" else words("on_subset", subset=subset_words(name, language))


def pair_words(pair: AxisPair, language: Language = "en") -> str:
    words, found, unit = words_in(CHARTS, language), pair.found, pair.metric.unit
    one, other = (words(f"axis_{axis}") for axis in pair.axes)
    named = {
        "one": one,
        "other": other,
        "title": pair.metric.title,
        "p": p_value(pair.p),
        "overall": pair.levels[0][found.overall],
        "where": _on_subset(pair.subset, language),
    }
    if not pair.p < ALPHA:
        return words("no_interaction", **named)
    apart = [
        words(
            "best_at",
            level=pair.levels[0][best.level],
            here=pair.levels[1][at],
            gain=with_sign(best.difference, unit),
            ends=interval(best.low, best.high, unit, words("to")),
        )
        for at, best in enumerate(found.best)
        if best.apart
    ]
    if apart:
        return words("interaction", **named, named=listed_in(language, apart))
    largest = found.largest
    return words(
        "no_other_best",
        **named,
        level=pair.levels[0][largest.one],
        here=pair.levels[1][largest.here],
        value=with_sign(largest.value, unit),
        ends=interval(largest.low, largest.high, unit, words("to")),
    )


def _contexts(effect: AxisEffect, language: Language) -> str:
    words, contexts = words_in(CHARTS, language), effect.crossing.contexts
    varying = [at for at in range(len(contexts[0])) if len({context[at] for context in contexts}) > 1]
    others = [axis for axis in effect.axes if axis != effect.axis]
    if len(varying) == 1:
        return several(words, f"n_{others[varying[0]]}", len(contexts))
    axes = listed_in(language, [words(f"axis_{others[at]}") for at in varying])
    return several(words, "combinations", len(contexts), axes=axes)


def _left_out(effect: AxisEffect, language: Language) -> str:
    words, names = words_in(CHARTS, language), effect.crossing.left_out[0]
    text = words("left_out", names=listed_in(language, names)) if names else ""
    if effect.crossing.unused:
        text += several(words, "used", effect.of, used=effect.of - effect.crossing.unused)
    return text


Row = dict[str, Any]
EFFECT, INTERACTION, CONTEXT = "effect", "interaction", "context"


def effect_rows(data: ReportData) -> list[Row]:
    """Return a row a level of each axis and metric, and one a pair of levels of each pair of axes.

    `effect:METRIC`: the level in the column of its axis; `value` is the mean over equal contexts, `leader`
    the best level, `difference` and `p` are to that; `subset` names the group of questions, if any (`all ·
    type: fact`). `interaction:METRIC`: two levels; `value` is their mean, `p` that of the pair of axes.
    `context:N`: share of the gold in N tokens of a ranking.
    """
    found = effects(data)
    rows: list[Row] = []
    for table in found.axes:
        for one in table.effects:
            rows += _level_rows(one, one.subset)
        for group in table.groups:
            rows += _level_rows(group.effect, f"{group.effect.subset} · {group.column}: {group.group}")
    for pair in found.pairs:
        rows += _pair_rows(pair)
    return rows + _at_lengths(data)


def _at_lengths(data: ReportData) -> list[Row]:
    """Return a row a ranking and length of context (`context:1000`)."""
    if data.contexts is None:
        return []
    means = data.contexts.group_by("cell").agg(pl.len(), *(pl.col(f"at_{n}").mean() for n in BUDGETS))
    board = data.leaderboard.select("cell", "chunking", "embedder", "retriever").unique("cell")
    rows = []
    for row in means.join(board, on="cell").sort("cell").iter_rows(named=True):
        named = {**{name: row[name] for name in board.columns}, "subset": "all", "n": row["len"]}
        rows += [{**named, "metric": f"{CONTEXT}:{n}", "value": row[f"at_{n}"]} for n in BUDGETS]
    return rows


def _level_rows(effect: AxisEffect, subset: str) -> list[Row]:
    found = effect.found
    return [
        {
            **{name: _number(getattr(found, name)[at]) for name in ("low", "high", "difference", "p")},
            **{
                name: None if at == found.best else _number(getattr(found, name)[at])
                for name in ("difference_low", "difference_high")
            },
            "subset": subset,
            effect.axis: level,
            "metric": f"{EFFECT}:{effect.metric.name}",
            "value": _number(found.mean[at]),
            "n": found.n,
            "leader": effect.best,
            "tied": not found.apart[at],
        }
        for at, level in enumerate(effect.levels)
    ]


def _pair_rows(pair: AxisPair) -> list[Row]:
    one, other = pair.axes
    return [
        {
            "subset": pair.subset,
            one: level,
            other: here,
            "metric": f"{INTERACTION}:{pair.metric.name}",
            "value": _number(pair.found.means[i, j]),
            "n": pair.found.n,
            "p": pair.p,
            "tied": not pair.p < ALPHA,
        }
        for i, level in enumerate(pair.levels[0])
        for j, here in enumerate(pair.levels[1])
    ]


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
