"""Which cells moved between two results: paired by the questions that both were asked alike."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from rag_assay.evals.reporting.changes.cell_matching import MatchedCells
from rag_assay.evals.reporting.changes.entry import MetricFacts
from rag_assay.evals.reporting.changes.sides import Side
from rag_assay.evals.statistics.permutation import sign_flips
from rag_assay.evals.statistics.question_clusters import ALONE, Clustering, clustering
from rag_assay.evals.statistics.resampling import Floats
from rag_assay.evals.statistics.significance import ALPHA, holm, paired_bootstrap
from rag_assay.evals.study.sections import ClustersBy

SECONDS = "s"
"""The unit of metrics that each run measures anew, so that a difference says nothing of what changed."""


@dataclass(frozen=True)
class Move:
    """A cell by a metric, in both results on the same questions.

    before, after: means; difference with its 95 % interval
    p: of the paired bootstrap and the paired permutation test the larger, each adjusted (Holm) for the cells
    """

    cell: str
    metric: str
    before: float
    after: float
    difference: float
    low: float | None
    high: float | None
    p: float
    questions: int

    @property
    def is_significant(self) -> bool:
        """Whether both tests tell the results apart."""
        return self.p < ALPHA


def moves(before: Side, after: Side, cells: MatchedCells, same: Collection[str]) -> list[Move]:
    """Compare all matched cells by each metric that both have, times aside.

    same: the questions that both sides ask alike
    """
    known = {one.name for one in before.entry.metrics}
    metrics = [one for one in after.entry.metrics if one.name in known and one.unit != SECONDS]
    pairs = pl.DataFrame(
        {"cell": [a for a, _ in cells.pairs], "other": [b for _, b in cells.pairs]},
        schema={"cell": pl.String, "other": pl.String},
    )
    old = before.scores.join(pairs, on="cell").drop("cell").rename({"other": "cell", "value": "old"})
    both = after.scores.join(old, on=["cell", "metric", "question_id"]).filter(
        pl.col("question_id").is_in(list(same))
    )
    drawn = _clustering(after)
    return [
        one
        for metric in metrics
        for one in _moved(both.filter(pl.col("metric") == metric.name), metric, after.entry.seed, drawn)
    ]


def _clustering(side: Side) -> Clustering:
    by: ClustersBy = side.entry.clusters
    return clustering(side.questions, by) if len(side.questions) else ALONE


def _moved(rows: pl.DataFrame, metric: MetricFacts, seed: int, drawn: Clustering) -> list[Move]:
    if rows.is_empty():
        return []
    cells = rows["cell"].unique().sort().to_list()
    questions = rows["question_id"].unique().sort().to_list()
    old, new = (_table(rows, name, cells, questions) for name in ("old", "value"))
    apart = new - old
    differs = np.flatnonzero((np.abs(np.nan_to_num(apart)) > 0).any(axis=0))
    p = np.ones(len(cells))
    low, high = np.zeros(len(cells)), np.zeros(len(cells))
    if len(differs):
        codes = drawn.codes(questions)
        binary = bool(np.isin(np.nan_to_num(np.stack([old, new])), (0.0, 1.0)).all())
        found = paired_bootstrap(apart[:, differs], seed, clusters=codes, binary=binary)
        flipped = sign_flips(apart[:, differs], seed, clusters=codes)
        p = np.maximum(_adjusted(found.p, differs, len(cells)), _adjusted(flipped, differs, len(cells)))
        low[differs], high[differs] = found.low, found.high
    return [
        Move(
            cell,
            metric.name,
            float(np.nanmean(old[:, at])),
            float(np.nanmean(new[:, at])),
            float(np.nanmean(apart[:, at])),
            _number(low[at]),
            _number(high[at]),
            float(p[at]),
            int((~np.isnan(apart[:, at])).sum()),
        )
        for at, cell in enumerate(cells)
    ]


def _adjusted(p: Floats, at: np.ndarray, cells: int) -> Floats:
    """Adjust p-values for all cells that were compared: those that are equal in every question count, too."""
    whole = np.ones(cells)
    whole[at] = np.where(np.isnan(p), 1.0, p)
    return holm(whole)


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _table(rows: pl.DataFrame, name: str, cells: Sequence[str], questions: Sequence[str]) -> Floats:
    """Return values of shape (questions, cells), NaN where there is none."""
    table = np.full((len(questions), len(cells)), np.nan)
    row_of = {question: at for at, question in enumerate(questions)}
    column_of = {cell: at for at, cell in enumerate(cells)}
    found = rows.select(
        pl.col("question_id").replace_strict(row_of, return_dtype=pl.Int64),
        pl.col("cell").replace_strict(column_of, return_dtype=pl.Int64),
        name,
    ).to_numpy()
    table[found[:, 0].astype(int), found[:, 1].astype(int)] = found[:, 2]
    return table
