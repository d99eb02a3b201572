"""Tables of values for statistics over the cells of a subset: questions by cells, on equal questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from rag_assay.evals.reporting.data import MetricInfo, ReportData
from rag_assay.evals.reporting.standings import CellStanding, Subset
from rag_assay.evals.statistics.full_crossing import Crossing, Place
from rag_assay.evals.statistics.resampling import Floats
from rag_assay.evals.study.cells import AXES
from rag_assay.warehouse.schemas import MIN_COVERAGE


class Values(NamedTuple):
    """The values of a metric in the cells of a subset that may be compared.

    axes: names of those on which the metric can differ
    places: cells, by their levels on these axes
    questions: ids, in order
    table: shape (questions, places), NaN where there is none
    """

    axes: tuple[str, ...]
    places: tuple[Place, ...]
    questions: tuple[str, ...]
    table: Floats

    def crossed(self, crossing: Crossing, axes: Sequence[int]) -> Floats:
        """Return the values of a crossing: shape (questions, contexts, …levels of each of the axes)."""
        at = {place: column for column, place in enumerate(self.places)}
        shape = tuple(len(names) for names in crossing.levels)
        columns = [
            at[crossing.place(axes, [crossing.levels[n][level] for n, level in enumerate(own)], context)]
            for context in crossing.contexts
            for own in np.ndindex(*shape)
        ]
        return self.table[:, columns].reshape(len(self.questions), len(crossing.contexts), *shape)


def values_of(data: ReportData, subset: Subset, metric: MetricInfo) -> Values | None:
    """Return what a metric measured in the cells of a subset; None where there is nothing to compare.

    Cells without enough values or answers are left out, and those that read no ranking: they have no place on
    the axes. A metric of rankings cannot differ by generator: cells of one ranking are one there. None: no
    cell is left, or no question that all of them were asked.
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
    return Values(axes, tuple(chosen), tuple(ids), _table(rows, ids, [*chosen.values()]))


def _counts(standing: CellStanding, metric: MetricInfo, of_rankings: bool) -> bool:
    result = standing.results.get(metric.name)
    enough = of_rankings or standing.answered is None or standing.answered >= MIN_COVERAGE
    return standing.cell.retriever is not None and result is not None and result.covered and enough


def _table(rows: pl.DataFrame, ids: Sequence[str], cells: Sequence[str]) -> Floats:
    row, column = _numbered(ids), _numbered(cells)
    table = np.full((len(ids), len(cells)), np.nan)
    known = rows.filter(pl.col("question_id").is_in(ids) & pl.col("value").is_not_null())
    at = known.select(
        pl.col("question_id").replace_strict(row, return_dtype=pl.Int64),
        pl.col("cell").replace_strict(column, return_dtype=pl.Int64),
    )
    table[at["question_id"].to_numpy(), at["cell"].to_numpy()] = known["value"].to_numpy()
    return table


def _numbered(names: Sequence[str]) -> Mapping[str, int]:
    return {name: at for at, name in enumerate(names)}
