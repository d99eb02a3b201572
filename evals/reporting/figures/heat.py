"""Heat maps: chunking x retriever, pairs of axes, and questions x chunkings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from rag_assay.evals.reporting import limits
from rag_assay.evals.reporting.charts.marks import HeatRow, HeatSquare, HeatTable, heat
from rag_assay.evals.reporting.data import MetricInfo, ReportData
from rag_assay.evals.reporting.display import interval, link_of, natural, number, percent, several, truncate
from rag_assay.evals.reporting.effects import AxisPair, Effects, pair_words
from rag_assay.evals.reporting.figures.bars import IN_ROWS, left_out
from rag_assay.evals.reporting.standings import Result, Subset, values_of
from rag_assay.evals.statistics.bootstrap import intervals
from rag_assay.evals.statistics.effects import over_contexts
from rag_assay.evals.statistics.resampling import Floats
from rag_assay.evals.statistics.significance import ALPHA


@dataclass(frozen=True)
class MatrixSquare:
    """One square: the result, and its heat from 0 (worst shown) to 8 (best shown); None is uncoloured."""

    result: Result | None
    level: int | None


@dataclass(frozen=True)
class Effect:
    """How far one axis moves the metric: the means over the other axis, and their extremes.

    over: how many names of the other axis the means are taken over: those with a value for all of `means`
    """

    means: Mapping[str, float]
    over: int
    of: int

    @property
    def span(self) -> float | None:
        """Return the largest mean less the smallest, or None with fewer than two means."""
        return max(self.means.values()) - min(self.means.values()) if len(self.means) > 1 else None


@dataclass(frozen=True)
class Matrix:
    """The squares of one metric (and one embedder), and the effect of each axis."""

    metric: MetricInfo
    embedder: str | None
    chunkings: tuple[str, ...]
    retrievers: tuple[str, ...]
    squares: Mapping[tuple[str, str], MatrixSquare]
    by_chunking: Effect
    by_retriever: Effect

    def table(self) -> HeatTable:
        gap = "no chunking has a value for every retriever"
        return HeatTable(
            "",
            f"{self.metric.title} by chunking and retriever",
            "",
            "",
            self.retrievers,
            tuple(
                HeatRow(
                    chunking,
                    tuple(self._drawn(chunking, retriever) for retriever in self.retrievers),
                    self._mean(self.by_chunking, chunking, "no retriever has a value for every chunking"),
                )
                for chunking in self.chunkings
            ),
            (
                HeatRow(
                    "Mean",
                    tuple(self._mean(self.by_retriever, retriever, gap) for retriever in self.retrievers),
                ),
            ),
            "Mean",
        )

    def _drawn(self, chunking: str, retriever: str) -> HeatSquare:
        square = self.squares.get((chunking, retriever))
        if square is None or square.result is None or square.result.value is None:
            return HeatSquare("", title="not run" if square is None else "no question has a value")
        result = square.result
        text = number(result.value, self.metric.unit)
        if square.level is None:
            why = f"coverage {percent(result.coverage)}: left out of the means"
            return HeatSquare(f"{text}†", title=why, warn=True)
        ends = interval(result.low, result.high, self.metric.unit)
        return HeatSquare(text, square.level, f"{ends}, n = {result.n}")

    def _mean(self, effect: Effect, name: str, why: str) -> HeatSquare:
        if name not in effect.means:
            return HeatSquare("", title=why)
        return HeatSquare(number(effect.means[name], self.metric.unit))


def matrices(data: ReportData, subset: Subset) -> tuple[Matrix, ...]:
    """Return one matrix for each retrieval metric, and for each embedder when there are several."""
    embedders = sorted({one.cell.embedder or "" for one in subset.standings if one.cell.retriever})
    metrics = [metric for metric in data.metrics if metric.kind == "retrieval"]
    found = [
        _matrix(subset, metric, embedder, len(embedders) > 1) for metric in metrics for embedder in embedders
    ]
    return tuple(matrix for matrix in found if matrix.squares)


def effect(values: Mapping[tuple[str, str], float], names: Sequence[str], others: Sequence[str]) -> Effect:
    """Average ``values[name, other]`` over the others for which every name has a value.

    Means over different others would compare different things, so a column with a gap is left out.

    >>> effect({("a", "x"): 0.2, ("a", "y"): 0.4, ("b", "x"): 0.6}, ["a", "b"], ["x", "y"]).means
    {'a': 0.2, 'b': 0.6}
    """
    common = [other for other in others if all((name, other) in values for name in names)]
    means = {name: fmean(values[name, other] for other in common) for name in names} if common else {}
    return Effect(means, len(common), len(others))


def _matrix(subset: Subset, metric: MetricInfo, embedder: str, several: bool) -> Matrix:
    results: dict[tuple[str, str], Result] = {}
    for standing in subset.standings:
        cell, result = standing.cell, standing.results.get(metric.name)
        place = (cell.chunking or "", cell.retriever or "")
        # A generator cannot change a retrieval metric: the first cell of a place stands for all.
        if result and (cell.embedder or "") == embedder and not (place in results and results[place].covered):
            results[place] = result
    chunkings = tuple(sorted({chunking for chunking, _ in results}, key=natural))
    retrievers = tuple(sorted({retriever for _, retriever in results}, key=natural))
    values = {place: r.value for place, r in results.items() if r.covered and r.value is not None}
    turned = {(retriever, chunking): value for (chunking, retriever), value in values.items()}
    return Matrix(
        metric,
        embedder if several else None,
        chunkings,
        retrievers,
        {place: _square(result, values, metric) for place, result in results.items()},
        effect(values, chunkings, retrievers),
        effect(turned, retrievers, chunkings),
    )


def _square(result: Result, values: Mapping[tuple[str, str], float], metric: MetricInfo) -> MatrixSquare:
    if not result.covered or result.value is None:
        return MatrixSquare(result, None)
    shown = values.values()
    return MatrixSquare(result, heat(result.value, min(shown), max(shown), metric.higher_is_better))


def pair_figures(effects: Effects) -> tuple[HeatTable, ...]:
    """Return a heat map of each pair of axes, first those of which one depends on the other."""
    ordered = sorted(effects.pairs, key=lambda pair: not pair.p < ALPHA)
    return tuple(_figure(pair) for pair in ordered)


def _figure(pair: AxisPair) -> HeatTable:
    one, other = pair.axes
    rows_of, columns_of = (
        (sorted(range(len(names)), key=lambda at: natural(names[at]))[: limits.PAIR_LEVELS])
        for names in pair.levels
    )
    means = pair.found.means
    shown = means[np.ix_(rows_of, columns_of)]
    ends = (float(shown.min()), float(shown.max()))

    def square(row: int, column: int) -> HeatSquare:
        low, high = float(pair.found.low[row, column]), float(pair.found.high[row, column])
        level = heat(float(means[row, column]), *ends, higher_is_better=pair.metric.higher_is_better)
        small = "" if math.isnan(low) else interval(low, high, pair.metric.unit)
        return HeatSquare(
            written(means[row, column]), level, small=small, bold=row == pair.found.best[column].level
        )

    def written(value: float) -> str:
        return number(float(value), pair.metric.unit)

    rows = tuple(
        HeatRow(
            pair.levels[0][row],
            tuple(square(row, column) for column in columns_of),
            HeatSquare(written(means[row].mean())),
        )
        for row in rows_of
    )
    foot = tuple(HeatSquare(written(means[:, column].mean())) for column in columns_of)
    further = sum(len(names) for names in pair.levels) - len(rows_of) - len(columns_of)
    return HeatTable(
        f"chart-pair-{one}-{other}",
        f"{one.capitalize()} and {other}: {pair.metric.title}",
        f"{pair_words(pair)} Means over {several(pair.found.n, 'question')} in equal contexts with their "
        f"intervals; the best {one} with each {other} is bold.",
        one.capitalize(),
        tuple(pair.levels[1][column] for column in columns_of),
        rows,
        (HeatRow("Mean", foot),),
        "Mean",
        left_out(IN_ROWS, level=further),
    )


TEXT = 120  # characters of a question
_ALIKE = 1e-9


def questions_figure(data: ReportData, subset: Subset) -> HeatTable | None:
    """Return the first metric of each question and chunking, the mean over equal contexts.

    None where no two chunkings stand in equal contexts. Of many questions those are shown on which chunkings
    differ most.
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
    rows = tuple(
        _row(questions[one], texts, table[one, : len(columns)], means[one], metric, ends) for one in chosen
    )
    found = intervals(table, data.seed, data.clusters.codes(questions), metric.bounds)
    foot = [HeatSquare(number(one.mean), small=interval(one.low, one.high)) for one in found if one]
    last = f"All {len(known)} questions" if len(known) > len(rows) else "Mean"
    return HeatTable(
        "chart-questions",
        f"Questions and chunkings: {metric.title}",
        _about(table, names, metric, len(crossed.contexts)),
        "Question",
        tuple(columns),
        rows,
        (HeatRow(last, tuple(foot[: len(columns)])),),
        "Mean",
        left_out(
            "chunkings differ less on them",
            question=len(known) - len(rows),
            chunking=len(names) - len(columns),
        ),
        texts=True,
    )


def _row(
    question_id: str,
    texts: Mapping[str, Mapping[str, Any]],
    values: Floats,
    mean: float,
    metric: MetricInfo,
    ends: tuple[float, float],
) -> HeatRow:
    question = texts.get(question_id, {"question": question_id, "language": None})
    whole = f"{question_id}: {question['question']}"
    squares = [
        HeatSquare(number(one), heat(one, *ends, higher_is_better=metric.higher_is_better))
        for one in values.tolist()
    ]
    text = truncate(question["question"], TEXT)
    return HeatRow(
        text, tuple(squares), HeatSquare(number(mean)), whole, question["language"], link_of(question_id)
    )


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
