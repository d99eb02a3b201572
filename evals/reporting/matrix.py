"""A heat map of chunking x retriever, and the effect of each axis on a metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from rag_assay.evals.reporting.charts import heat as heat_map
from rag_assay.evals.reporting.charts.heat import HeatRow, HeatTable, heat
from rag_assay.evals.reporting.data import MetricInfo, ReportData
from rag_assay.evals.reporting.display import interval, number, percent
from rag_assay.evals.reporting.standings import Result, Subset


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
        """Return the squares with the means of both axes, as they are drawn."""
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

    def _drawn(self, chunking: str, retriever: str) -> heat_map.HeatSquare:
        square = self.squares.get((chunking, retriever))
        if square is None or square.result is None or square.result.value is None:
            return heat_map.HeatSquare("", title="not run" if square is None else "no question has a value")
        result = square.result
        text = number(result.value, self.metric.unit)
        if square.level is None:
            why = f"coverage {percent(result.coverage)}: left out of the means"
            return heat_map.HeatSquare(f"{text}†", title=why, warn=True)
        ends = interval(result.low, result.high, self.metric.unit)
        return heat_map.HeatSquare(text, square.level, f"{ends}, n = {result.n}")

    def _mean(self, effect: Effect, name: str, why: str) -> heat_map.HeatSquare:
        if name not in effect.means:
            return heat_map.HeatSquare("", title=why)
        return heat_map.HeatSquare(number(effect.means[name], self.metric.unit))


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


def natural(name: str) -> tuple[tuple[bool, int, str], ...]:
    """Return by what a name is sorted so that `tokens-64` stands before `tokens-128`.

    >>> sorted(["tokens-128", "tokens-64"], key=natural)
    ['tokens-64', 'tokens-128']
    """
    parts = "".join(c if c.isdigit() else f" {c} " for c in name).split()
    return tuple((not part.isdigit(), int(part) if part.isdecimal() else 0, part) for part in parts)
