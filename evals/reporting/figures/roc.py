"""ROC curves of judges against people: how well each tells a good answer from a bad one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from rag_assay.evals.reporting import limits
from rag_assay.evals.reporting.charts.planes import STYLES, ChartData, Plane, PlotLine, grid, polyline, upward
from rag_assay.evals.reporting.charts.scales import Scale
from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.display import interval, number, percent
from rag_assay.evals.reporting.figures.captions import left_out
from rag_assay.evals.statistics.roc import roc_curve


def roc_figure(data: ReportData) -> Plane | None:
    """Return a curve of each judge, metric and kind of labels that has both good and bad answers.

    None where there is none: nobody has labelled or scored what a judge has judged.
    """
    pairs = data.judge_pairs
    if pairs is None or not pairs.height:
        return None
    by = ["judge", "metric", "slice"]
    sided = pairs.group_by(by).agg(pl.col("good").sum().alias("_good"), n=pl.len())
    found = sided.filter((pl.col("_good") > 0) & (pl.col("_good") < pl.col("n"))).sort(
        ["n", *by], descending=[True, False, False, False], nulls_last=True
    )
    shown = [_Curve(data, pairs, row) for row in found.head(limits.ROC_CURVES).iter_rows(named=True)]
    if not shown:
        return None
    shown.sort(key=lambda one: -one.area)
    across, up = Scale(0.0, 1.0), upward(Scale(0.0, 1.0))
    x_ticks, y_ticks = grid(across, up)
    lines = [one.line(at, across, up) for at, one in enumerate(shown)]
    further = found.height - len(shown)
    return Plane(
        "chart-roc",
        "Judges against people: ROC",
        _about(shown),
        "share of bad answers passed",
        "share of good answers passed",
        x_ticks,
        y_ticks,
        lines=tuple(lines),
        table=ChartData(
            "The curves as a table",
            ("Judge and metric", "at least", "good passed", "bad passed"),
            tuple(row for one in shown for row in one.rows()),
        ),
        diagonal="chance (AUC 0.5)",
        rest=left_out("they are of fewer answers; their areas stand in the cards", curve=further),
    )


class _Curve:
    """One curve, with the area that stands on the judge's card."""

    def __init__(self, data: ReportData, pairs: pl.DataFrame, row: dict[str, object]) -> None:
        self.judge, self.metric, self.by = str(row["judge"]), str(row["metric"]), row["slice"]
        same = (pl.col("judge") == self.judge) & (pl.col("metric") == self.metric)
        own = pairs.filter(same & pl.col("slice").eq_missing(pl.lit(self.by, pl.String)))
        self.n = own.height
        self.curve = roc_curve(own["good"].to_numpy(), own["value"].to_numpy())
        self.area = float(np.trapezoid(self.curve.good, self.curve.bad))
        cards = data.judge_cards
        self.ends, self.low = "–", 0.0
        if cards is not None:
            of_slice = pl.col("slice").eq_missing(pl.lit(self.by, pl.String))
            card = cards.filter(same & of_slice & (pl.col("measure") == "auc")).head(1)
            for low, high in card.select("low", "high").iter_rows():
                self.ends, self.low = interval(low, high), low or 0.0

    @property
    def name(self) -> str:
        """The judge and its metric, and who said what is good."""
        by = f"against {self.by}" if self.by else "against labelled cases"
        return f"{self.judge}.{self.metric} {by}"

    def line(self, at: int, across: Scale, up: Scale) -> PlotLine:
        best = int(np.argmax(self.curve.good - self.curve.bad))
        words = f"AUC {number(self.area)}" + (f" [{self.ends}]" if self.ends != "–" else "")
        return PlotLine(
            polyline(self.curve.bad.tolist(), self.curve.good.tolist(), across, up),
            at % STYLES,
            self.name,
            (f"{words}, n = {self.n}",),
            at + 1,
            (across.at(float(self.curve.bad[best])), up.at(float(self.curve.good[best]))),
        )

    def rows(self) -> list[tuple[str, ...]]:
        """Return some of its points: at most so many thresholds, evenly."""
        every = range(1, len(self.curve.at))
        step = max(1, len(every) // limits.ROC_POINTS)
        return [
            (
                self.name,
                number(float(self.curve.at[at])),
                percent(float(self.curve.good[at])),
                percent(float(self.curve.bad[at])),
            )
            for at in every[::step]
        ]


def _about(shown: Sequence[_Curve]) -> str:
    best = shown[0]
    words = (
        "A judge's value as a threshold, from the strictest on the left to the laxest: a curve that climbs "
        "at once tells what people call good from what they call bad; along the diagonal it is a coin"
    )
    if not any(one.low > 0.5 for one in shown):
        return f"{words}. None is shown to be better than a coin (the largest AUC is {number(best.area)})."
    than = f", {shown[-1].name} least ({number(shown[-1].area)})" if len(shown) > 1 else ""
    return f"{words}. {best.name} tells them best (AUC {number(best.area)}){than}."
