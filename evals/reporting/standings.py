"""Groups the leaderboard's rows: one standing for each cell, one table for each subset of questions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache

import polars as pl

from rag_assay.evals.reporting.data import MetricInfo, ReportData
from rag_assay.evals.study.cells import AXES
from rag_assay.evals.study.cells import varying_axes as cells_axes
from rag_assay.warehouse.schemas import MIN_COVERAGE

ALL = "all"


@dataclass(frozen=True)
class LeaderboardCell:
    """A cell's readable key and its place on the four axes; None: its generator reads no ranking."""

    key: str
    chunking: str | None
    embedder: str | None
    retriever: str | None
    generator: str | None

    def label(self, axes: Iterable[str]) -> str:
        """Name the cell by its parts on ``axes``.

        >>> LeaderboardCell("c.t.e.r.g", "t", "e", "r", None).label(["chunking", "retriever", "generator"])
        't · r'
        """
        return " · ".join(part for axis in axes if (part := getattr(self, axis))) or self.key


@dataclass(frozen=True)
class Result:
    """A cell's mean of one metric, and how it differs from the leader's, as in the schema LEADERBOARD.

    replicates: how often the cell was asked
    """

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
    replicate_low: float | None = None
    replicate_high: float | None = None
    replicates: int = 1
    detectable: float | None = None
    questions_needed: int | None = None
    clusters: int | None = None
    question_sd: float | None = None
    replicate_sd: float | None = None

    @property
    def spread(self) -> float | None:
        """How far the means of its replicates lie apart; None where it was asked once."""
        if self.replicate_low is None or self.replicate_high is None:
            return None
        return self.replicate_high - self.replicate_low

    @property
    def covered(self) -> bool:
        """Whether enough questions have a value for the mean to be compared."""
        return self.value is not None and self.coverage >= MIN_COVERAGE


@dataclass(frozen=True)
class CellStanding:
    """One cell of a subset.

    rank: by the primary metric; None: not ranked
    results: by metric
    answered: share of the questions that its generator dealt with; None: it has none
    tie_group: of cells that are tied with its first; None: no rank
    p_best: how likely it is the best; None: no rank
    """

    cell: LeaderboardCell
    rank: int | None
    results: Mapping[str, Result]
    answered: float | None = None
    tie_group: int | None = None
    p_best: float | None = None

    def is_ceiling(self, metric: MetricInfo) -> bool:
        """Return whether it has no rank though it could: it answers from the gold evidence."""
        return (
            self.rank is None
            and self.cell.retriever is None
            and metric.name in self.results
            and (self.coverage(metric) or 0.0) >= MIN_COVERAGE
        )

    def coverage(self, metric: MetricInfo) -> float | None:
        """Return the share of the questions with a value of ``metric`` and, from a generator, an answer.

        Where the metric does not apply to the cell, the share with an answer.
        """
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
        """Return the number of questions that ``metric`` applies to; it is the same in every cell."""
        return max((s.results[metric.name].n for s in self.standings if metric.name in s.results), default=0)


@lru_cache(maxsize=2)  # a page and a terminal ask for them again and again
def subsets(data: ReportData) -> tuple[Subset, ...]:
    """Gather the leaderboard by subset: all questions first, then the samples, the largest first."""
    names = data.leaderboard["subset"].unique().to_list()
    ordered = sorted(names, key=lambda name: (name != ALL, -_sample_size(name), name))
    return tuple(_subset(data, name) for name in ordered)


def main_subset(data: ReportData) -> Subset:
    """Return the subset that the headline speaks of: all questions, or the largest sample without them."""
    return next(iter(subsets(data)), Subset(ALL, ()))


def varying_axes(standings: Iterable[CellStanding]) -> tuple[str, ...]:
    """Return the axes on which the cells differ: what a cell's label must name."""
    cells = [standing.cell for standing in standings]
    return cells_axes([[getattr(cell, axis) for axis in AXES] for cell in cells])


def _sample_size(name: str) -> int:
    found = re.search(r"\d+", name)
    return int(found.group()) if found else 0


def _subset(data: ReportData, name: str) -> Subset:
    rows = data.leaderboard.filter(pl.col("subset") == name)
    of_rankings = {metric.name for metric in data.metrics if metric.of_rankings}
    cells: dict[str, LeaderboardCell] = {}
    results: dict[str, dict[str, Result]] = {}
    ranks: dict[str, int | None] = {}
    answered: dict[str, float | None] = {}
    places: dict[str, tuple[int | None, float | None]] = {}
    for row in rows.iter_rows(named=True):
        key = row["cell"]
        cells[key] = LeaderboardCell(key, *(row[axis] for axis in AXES))
        results.setdefault(key, {})
        answered[key] = row["answered"]
        places[key] = row["tie_group"], row["p_best"]
        if row["retriever"] is None and row["metric"] in of_rankings:
            continue
        results[key][row["metric"]] = Result(
            **{one.name: row[one.name] for one in fields(Result)}
            | {"coverage": row["coverage"] or 0.0, "replicates": row["replicates"] or 1}
        )
        if row["metric"] == data.primary.name:
            ranks[key] = row["rank"]
    standings = [
        CellStanding(cells[key], ranks.get(key), results[key], answered[key], *places[key]) for key in cells
    ]
    return Subset(name, tuple(sorted(standings, key=lambda standing: _order(standing, data.primary))))


def _order(standing: CellStanding, metric: MetricInfo) -> tuple[bool, int, bool, float, str]:
    result = standing.results.get(metric.name)
    value = result.value if result else None
    sign = -1.0 if metric.higher_is_better else 1.0
    return (
        standing.rank is None,
        standing.rank or 0,
        value is None,
        sign * (value or 0.0),
        standing.cell.key,
    )
