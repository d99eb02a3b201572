"""How far the confidence of each cell's answers can be trusted: risk-coverage curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import polars as pl

from rag_assay.evals.reporting.charts.planes import polyline, upward
from rag_assay.evals.reporting.charts.scales import Scale
from rag_assay.evals.reporting.data import MetricInfo, ReportData
from rag_assay.evals.statistics.resampling import Floats
from rag_assay.evals.statistics.risk_coverage import RiskCoverage, risk_coverage

MOST = 12  # rows that are shown
NAME = "risk_coverage"
_OTHERS = {"abstention", "citation_precision", "citation_recall"}  # say less of how good an answer is


@dataclass(frozen=True)
class RiskRow:
    """The curve of one cell.

    answered: share of its questions that were answered, and have a value and a confidence
    at_once: risk of all of its answers: where the curve ends
    line, ideal: points of the curve and of the best possible one, as SVG has them
    """

    label: str
    found: RiskCoverage
    answered: float
    line: str
    ideal: str

    @property
    def of_all(self) -> float:
        """Risk of all answers: where the curve ends."""
        return float(self.found.risk[-1])


@dataclass(frozen=True)
class Risks:
    """The curves of the first cells of the leaderboard that have any.

    metric: what an answer loses on: its best possible value less its value
    most: the largest risk drawn
    """

    metric: MetricInfo
    rows: tuple[RiskRow, ...]
    left_out: int
    most: float


def risks(data: ReportData, cells: Sequence[str], labels: Mapping[str, str]) -> Risks | None:
    """Return the curves of ``cells``; None where no answer has both confidence and a value.

    cells: keys in the order of the leaderboard
    """
    metric = loss_metric(data)
    if metric is None:
        return None
    curves = _curves(data)
    found = {cell: curves[cell] for cell in cells if cell in curves}
    if not found:
        return None
    shown = list(found.items())[:MOST]
    most = max(float(max(curve.risk.max(), curve.ideal.max())) for _, (curve, _) in shown) or 1.0
    across, up = Scale(0.0, 1.0), upward(Scale(0.0, most))

    def line(curve: RiskCoverage, risk: Floats) -> str:
        return polyline(curve.coverage.tolist(), risk.tolist(), across, up)

    rows = tuple(
        RiskRow(labels.get(cell, cell), curve, share, line(curve, curve.risk), line(curve, curve.ideal))
        for cell, (curve, share) in shown
    )
    return Risks(metric, rows, len(found) - len(shown), most)


def risk_rows(data: ReportData) -> list[dict[str, Any]]:
    """Return a row a cell with the area under its curve, in the columns of the leaderboard."""
    metric = loss_metric(data)
    if metric is None:
        return []
    board = {row["cell"]: row for row in data.leaderboard.iter_rows(named=True)}
    names = ("cell", "cell_id", "chunking", "embedder", "retriever", "generator")
    return [
        {
            **{name: board[cell][name] for name in names},
            "subset": "all",
            "metric": f"{NAME}:{metric.name}",
            "value": curve.area,
            "n": curve.n,
            "coverage": share,
            "low": curve.low,
            "high": curve.high,
        }
        for cell, (curve, share) in _curves(data).items()
        if cell in board
    ]


def loss_metric(data: ReportData) -> MetricInfo | None:
    """Return the metric by which answers are right or wrong: of those with bounds the study's first.

    Abstention and citations only where there is no other.
    """
    found = [one for one in data.metrics if one.kind == "answer" and None not in one.bounds]
    return next((one for one in found if one.name not in _OTHERS), next(iter(found), None))


@lru_cache(maxsize=1)  # the page and the rows beside it show them
def _curves(data: ReportData) -> dict[str, tuple[RiskCoverage, float]]:
    """Return cell -> its curve and the share of its questions that is on it; cells without any are absent."""
    metric = loss_metric(data)
    if metric is None:
        return {}
    of = ["cell", "question_id"]
    answered = (
        data.answers.filter(pl.col("status") == "ok")
        .group_by(of)
        .agg(pl.col("confidence").drop_nulls().first())
    )
    asked = dict(data.answers.group_by("cell").agg(pl.col("question_id").n_unique()).iter_rows())
    values = data.values.filter((pl.col("metric") == metric.name) & pl.col("value").is_not_null())
    rows = values.join(answered, on=of).filter(pl.col("confidence").is_finite()).sort(of)
    best = metric.ideal or 0.0
    found = {}
    parts = rows.with_columns(loss=(pl.lit(best) - pl.col("value")).abs()).partition_by("cell")
    for own in sorted(parts, key=len):  # those of as many questions share their resamples
        cell = str(own["cell"][0])
        curve = risk_coverage(own["confidence"].to_numpy(), own["loss"].to_numpy(), data.seed)
        if curve is not None:
            found[cell] = (curve, curve.n / asked[cell])
    return {
        cell: found[cell] for cell in data.leaderboard["cell"].unique(maintain_order=True) if cell in found
    }
