"""The leaderboard by cell and subset of questions: standings, entries, groups, and tables of values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from rag_assay.evals.reporting.data import MetricInfo, ReportData
from rag_assay.evals.reporting.display import interval, number
from rag_assay.evals.statistics.full_crossing import Crossing, Place, find_crossing
from rag_assay.evals.statistics.resampling import Floats
from rag_assay.evals.statistics.significance import Standing
from rag_assay.evals.study.cells import AXES
from rag_assay.evals.study.cells import varying_axes as cells_axes
from rag_assay.warehouse.schemas import MIN_COVERAGE

ALL = "all"


@dataclass(frozen=True)
class LeaderboardCell:
    """A cell's key and its names on the four axes; None: its generator reads no ranking."""

    key: str
    chunking: str | None
    embedder: str | None
    retriever: str | None
    generator: str | None

    def label(self, axes: Iterable[str]) -> str:
        return " · ".join(part for axis in axes if (part := getattr(self, axis))) or self.key


@dataclass(frozen=True)
class Result:
    """A cell's mean of one metric, and its difference from the leader, as in the schema LEADERBOARD."""

    value: float | None
    n: int
    coverage: float
    low: float | None
    high: float | None
    worst: float | None
    best: float | None
    difference: float | None = None
    difference_low: float | None = None
    difference_high: float | None = None
    p: float | None = None
    tied: bool | None = None
    within_margin: bool | None = None
    replicate_low: float | None = None
    replicate_high: float | None = None
    replicates: int = 1
    detectable: float | None = None
    questions_needed: int | None = None
    clusters: int | None = None
    question_sd: float | None = None
    replicate_sd: float | None = None

    @property
    def standing(self) -> Standing | None:
        """Against the leader; None of the leader, and of what was not compared."""
        if self.p is None:
            return None
        return "within" if self.within_margin else "tied" if self.tied else "worse"

    @property
    def spread(self) -> float | None:
        """Range of the means of its replicates."""
        if self.replicate_low is None or self.replicate_high is None:
            return None
        return self.replicate_high - self.replicate_low

    def written(self, unit: str) -> str:
        """With a dagger where coverage is too low."""
        text = number(self.value, unit)
        return text if self.value is None or self.covered else f"{text}†"

    def ends(self, unit: str) -> str:
        """Interval in brackets; worst and best case in braces where coverage is too low."""
        if self.value is None:
            return ""
        if self.covered:
            return f" [{interval(self.low, self.high, unit)}]"
        return f" {{{interval(self.worst, self.best, unit)}}}"

    @property
    def covered(self) -> bool:
        return self.value is not None and self.coverage >= MIN_COVERAGE


@dataclass(frozen=True)
class CellStanding:
    """A cell of a subset; rank: by the primary metric; p_best: chance of being best.

    answered: share of the questions that its generator dealt with; tie_group: of cells tied with its first
    """

    cell: LeaderboardCell
    rank: int | None
    results: Mapping[str, Result]
    answered: float | None = None
    tie_group: int | None = None
    p_best: float | None = None

    def is_ceiling(self, metric: MetricInfo) -> bool:
        """Return whether it has no rank because it answers from the reference passages."""
        is_covered = metric.name in self.results and (self.coverage(metric) or 0.0) >= MIN_COVERAGE
        return is_covered and self.rank is None and self.cell.retriever is None

    def coverage(self, metric: MetricInfo) -> float | None:
        """Return the share of questions with a value of ``metric``, if it applies, and with an answer."""
        result = self.results.get(metric.name)
        if result is None:
            return self.answered
        return result.coverage if self.answered is None else min(result.coverage, self.answered)


@dataclass(frozen=True)
class Subset:
    """The standings on one set of questions, the ranked ones first."""

    name: str
    standings: tuple[CellStanding, ...]

    def n(self, metric: MetricInfo) -> int:
        return max((s.results[metric.name].n for s in self.standings if metric.name in s.results), default=0)


@lru_cache(maxsize=2)  # a page and a terminal ask for them repeatedly
def subsets(data: ReportData) -> tuple[Subset, ...]:
    """All questions first, then the samples, the largest first."""
    names = data.leaderboard["subset"].unique().to_list()
    ordered = sorted(names, key=lambda name: (name != ALL, -_sample_size(name), name))
    return tuple(_subset(data, name) for name in ordered)


def cell_labels(data: ReportData) -> Mapping[str, str]:
    standings = [standing for subset in subsets(data) for standing in subset.standings]
    axes = varying_axes(standings)
    return {standing.cell.key: standing.cell.label(axes) for standing in standings}


def main_subset(data: ReportData) -> Subset:
    """All questions, or the largest sample."""
    return next(iter(subsets(data)), Subset(ALL, ()))


def varying_axes(standings: Iterable[CellStanding]) -> tuple[str, ...]:
    cells = [standing.cell for standing in standings]
    return cells_axes([[getattr(cell, axis) for axis in AXES] for cell in cells])


def _sample_size(name: str) -> int:
    found = re.search(r"\d+", name)
    return int(found.group()) if found else 0


def _subset(data: ReportData, name: str) -> Subset:
    rows = data.leaderboard.filter(pl.col("subset") == name)
    of_rankings = {metric.name for metric in data.metrics if metric.of_rankings}
    standings, ranks = [], dict(rows.filter(metric=data.primary.name).select("cell", "rank").iter_rows())
    for (key,), own in rows.partition_by("cell", as_dict=True, maintain_order=True).items():
        results = {}
        for row in own.iter_rows(named=True):
            # One without a retriever reads no ranking; a system of the user's own may tell its passages.
            if row["retriever"] is None and row["metric"] in of_rankings and row["value"] is None:
                continue
            facts = {one.name: row[one.name] for one in fields(Result)}
            facts |= {"coverage": row["coverage"] or 0.0, "replicates": row["replicates"] or 1}
            results[row["metric"]] = Result(**facts)
        cell = LeaderboardCell(key, *(row[axis] for axis in AXES))
        rank = ranks.get(key) if data.primary.name in results else None
        places = (row["answered"], row["tie_group"], row["p_best"])
        standings.append(CellStanding(cell, rank, results, *places))
    return Subset(name, tuple(sorted(standings, key=lambda standing: _order(standing, data.primary))))


def _order(standing: CellStanding, metric: MetricInfo) -> tuple[bool, int, bool, float, str]:
    result = standing.results.get(metric.name)
    value = result.value if result else None
    sign = -1.0 if metric.higher_is_better else 1.0
    ordered = (value is None, sign * (value or 0.0), standing.cell.key)
    return standing.rank is None, standing.rank or 0, *ordered


@dataclass(frozen=True)
class RankedResult:
    """A result of the primary metric and the cells that have it, ranked ones first."""

    label: str
    rank: int | None
    result: Result
    cells: tuple[str, ...]
    p_best: float | None = None

    @property
    def tied(self) -> bool:
        """What was not compared is tied."""
        return self.result.tied is not False

    @property
    def is_open(self) -> bool:
        """More questions could settle whether it is worse than the leader."""
        return self.tied and not self.result.within_margin


def entries(data: ReportData, subset: Subset) -> tuple[RankedResult, ...]:
    """In the order of the standings; cells without a result are left out."""
    axes = varying_axes(subset.standings)
    groups: dict[tuple[object, ...], list[CellStanding]] = {}
    for standing in subset.standings:
        if data.primary.name in standing.results:
            groups.setdefault(_group_key(standing, data.primary), []).append(standing)
    if len(groups) < sum(map(len, groups.values())):
        axes = tuple(axis for axis in axes if axis != "generator") or ("chunking", "retriever")
    return tuple(_ranked_result(group, data.primary, axes) for group in groups.values())


def _group_key(standing: CellStanding, metric: MetricInfo) -> tuple[object, ...]:
    if metric.kind != "retrieval":
        return (standing.cell.key,)
    cell = standing.cell
    result = standing.results[metric.name]
    # Ranks do not count: of two generators on one ranking, one may have answered too little for a rank.
    return (cell.chunking, cell.embedder, cell.retriever, result.value, result.n, result.coverage)


def _ranked_result(group: list[CellStanding], metric: MetricInfo, axes: tuple[str, ...]) -> RankedResult:
    first = group[0]
    chances = [one.p_best for one in group if one.p_best is not None]
    label, keys = first.cell.label(axes), tuple(standing.cell.key for standing in group)
    p_best = sum(chances) if chances else None
    return RankedResult(label, first.rank, first.results[metric.name], keys, p_best)


class Groups(NamedTuple):
    """Groups of questions, the largest first, with their sizes.

    means: (group, cell) -> `mean`, n questions that the metric applies to, and how many are `with_value`
    """

    questions: Mapping[str, int]
    means: Mapping[tuple[str, str], Mapping[str, Any]]


def group_of(column: str) -> pl.Expr:
    """That a question is unanswerable, or a follow-up, goes before its type."""
    plain = pl.col(column).fill_null("(none)")
    if column != "type":
        return plain
    follows = pl.col("conversation").list.len() > 0
    return (
        pl.when(~pl.col("answerable"))
        .then(pl.lit("unanswerable"))
        .when(follows)
        .then(pl.lit("follow_up"))
        .otherwise(plain)
    )


def groups(data: ReportData, column: str, best: Sequence[RankedResult]) -> Groups:
    kinds = data.questions.select("question_id", group_of(column).alias("group"))
    sizes = kinds.group_by("group").len().sort("len", "group", descending=[True, False])
    cells = [entry.cells[0] for entry in best]
    scored = data.values.filter((pl.col("metric") == data.primary.name) & pl.col("cell").is_in(cells))
    good = pl.col("value")
    grouped = scored.join(kinds, on="question_id").group_by("group", "cell")
    rows = grouped.agg(mean=good.mean(), with_value=good.is_not_null().sum(), n=pl.len())
    means = rows.rows_by_key(("group", "cell"), named=True, unique=True)
    return Groups(dict(sizes.iter_rows()), means)


class Values(NamedTuple):
    """The values of a metric in comparable cells of a subset.

    axes: those on which the metric can differ
    places: cells, by their levels on these axes
    table: shape (questions, places), NaN: no value
    """

    axes: tuple[str, ...]
    places: tuple[Place, ...]
    questions: tuple[str, ...]
    table: Floats

    def along(self, *axes: str) -> tuple[Crossing, Floats] | None:
        """Return the levels of these axes in equal contexts, and the values, of shape (questions, contexts,
        …levels of each axis); None where cells meet in no context, or lack an axis.
        """
        if not set(axes) <= set(self.axes):
            return None
        numbers = [self.axes.index(axis) for axis in axes]
        crossing = find_crossing(self.places, numbers)
        if crossing is None:
            return None
        at = {place: column for column, place in enumerate(self.places)}
        shape = tuple(len(names) for names in crossing.levels)
        columns = [
            at[crossing.place(numbers, [crossing.levels[n][level] for n, level in enumerate(own)], context)]
            for context in crossing.contexts
            for own in np.ndindex(*shape)
        ]
        table = self.table[:, columns].reshape(len(self.questions), len(crossing.contexts), *shape)
        return crossing, table


def values_of(data: ReportData, subset: Subset, metric: MetricInfo) -> Values | None:
    """Return the values of a metric in comparable cells; None where there are none.

    Cells without enough values or answers are left out, and those that read no ranking; of a metric of
    rankings cells of one ranking are one.
    """
    of_rankings = metric.of_rankings or metric.kind == "retrieval"
    axes = tuple(axis for axis in AXES if axis != "generator" or not of_rankings)
    chosen: dict[Place, str] = {}
    for standing in subset.standings:
        if _counts(standing, metric, of_rankings):
            place = tuple(str(getattr(standing.cell, axis)) for axis in axes)
            chosen.setdefault(place, standing.cell.key)
    if not chosen:
        return None
    rows = data.values.filter((pl.col("metric") == metric.name) & pl.col("cell").is_in([*chosen.values()]))
    asked = rows.group_by("question_id").agg(pl.col("cell").n_unique())
    ids = sorted(asked.filter(pl.col("cell") == len(chosen))["question_id"])
    if not ids:
        return None
    return Values(axes, tuple(chosen), tuple(ids), value_table(rows, ids, [*chosen.values()]))


def _counts(standing: CellStanding, metric: MetricInfo, of_rankings: bool) -> bool:
    result = standing.results.get(metric.name)
    enough = of_rankings or standing.answered is None or standing.answered >= MIN_COVERAGE
    return standing.cell.retriever is not None and result is not None and result.covered and enough


def value_table(
    rows: pl.DataFrame, questions: Sequence[str], cells: Sequence[str], value: str = "value"
) -> Floats:
    """Return a column of rows (question_id, cell) in the shape (questions, cells), NaN: no value."""
    table = np.full((len(questions), len(cells)), np.nan)
    known = rows.filter(pl.col("question_id").is_in(list(questions)) & pl.col(value).is_not_null())
    places = []
    for name, names in (("question_id", questions), ("cell", cells)):
        at = {one: place for place, one in enumerate(names)}
        places.append(known[name].replace_strict(at, return_dtype=pl.Int64).to_numpy())
    table[tuple(places)] = known[value].to_numpy()
    return table
