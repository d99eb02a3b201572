"""Planes: quality over cost, ROC curves of judges, and risk-coverage curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl
from markupsafe import Markup

from rag_assay.evals.reporting import display, limits
from rag_assay.evals.reporting.charts import marks
from rag_assay.evals.reporting.contexts import Bought, Contexts, Front, context_words
from rag_assay.evals.reporting.data import MetricInfo, ReportData
from rag_assay.evals.reporting.sections import (
    Block,
    Column,
    Details,
    PageHeading,
    PageSection,
    Plane,
    PlotLine,
    Point,
    Row,
    Shape,
    Table,
    TableFigure,
    Tiles,
    bold,
    explain,
    mark,
    numbers,
    section,
)
from rag_assay.evals.reporting.texts import CHARTS, Language, Words, metric_title, several, words_in
from rag_assay.evals.statistics.effects import Levels
from rag_assay.evals.statistics.raters import roc_curve
from rag_assay.evals.statistics.risk_coverage import RiskCoverage, risk_coverage

FRONT = 5  # style of the line of the front


def front_figure(front: Front, at: int, language: Language = "en") -> Plane:
    words, cost = words_in(CHARTS, language), _cost_title(front, language)
    quality = metric_title(front.quality, language)
    across = marks.cost_scale([one.cost for one in front.all])
    ends = [end for one in front.points for end in (one.low, one.high)]
    up = marks.upward(marks.Scale(*marks.domain([*ends, *(one.value for one in front.all)])))
    numbered = {one: n for n, one in enumerate(front.points, 1)}
    others = [one for one in front.all if one not in numbered]
    drawn = others[: limits.PLANE_POINTS]
    x_ticks, y_ticks = marks.grid(across, up)
    points = [
        Point(
            across.at(one.cost),
            up.at(one.value),
            "diamond" if one.tied else "disc",
            f"{_named(one, words)}: {quality} {display.number(one.value)}, "
            f"{cost} {cost_words(one.cost, front.unit)}",
            n,
            up.at(one.low) if n and one.low is not None else None,
            up.at(one.high) if n and one.high is not None else None,
            pipeline=one.pipeline,
        )
        for one, n in [*((one, None) for one in drawn), *numbered.items()]
    ]
    shapes = {one.shape for one in points}
    key: tuple[tuple[Shape, str], ...] = (("diamond", words("leading")), ("disc", words("another")))
    unit = f", {_unit(front, words)}" if front.unit and front.unit not in cost.lower() else ""
    further = len(others) - len(drawn)
    return Plane(
        f"chart-front-{at}",
        words("and_cost", title=quality, cost=cost),
        _front_about(front, language),
        cost + unit + (f" ({words('logarithmic')})" if across.logarithmic else ""),
        quality,
        x_ticks,
        y_ticks,
        marks.labelled(points),
        (PlotLine(_steps(front, across, up), FRONT),),
        key if len(shapes) > 1 else (),
        rest=several(words, "left_points", further) if further else "",
        below=words("below"),
    )


def _cost_title(front: Front, language: Language) -> str:
    words = words_in(CHARTS, language)
    is_ours = front.cost in {"context", "answers"}
    title = words(front.cost) if is_ours else metric_title(front.cost, language)
    return f"{title}, {words(f'how_{front.how}')}" if front.how else title


def _unit(front: Front, words: Words) -> str:
    return words("tokens") if front.unit == "tokens" else front.unit


def _steps(front: Front, across: marks.Scale, up: marks.Scale) -> str:
    corners = [
        (across.at(one.cost), up.at(value))
        for before, one in zip((None, *front.points[:-1]), front.points, strict=True)
        for value in ([before.value] if before else []) + [one.value]
    ]
    corners.append((100, up.at(front.points[-1].value)))
    return " ".join(f"{x:.5g},{y:.5g}" for x, y in corners)


def _cost(cost: float, unit: str) -> str:
    return f"{cost:.4f}" if unit == "US$" else display.number(cost, unit)


def cost_words(cost: float, unit: str) -> str:
    return f"US$ {_cost(cost, unit)}" if unit == "US$" else f"{_cost(cost, unit)} {unit}".strip()


def contexts_section(
    found: Contexts | None, fronts: Sequence[Front], language: Language = "en"
) -> PageSection | None:
    """Return what equal lengths of context and costs buy; None where neither is known."""
    blocks: list[Block] = []
    words = words_in(CHARTS, language)
    if found:
        blocks.append(explain("at-length", language, quality=found.quality))
        blocks += context_words(found, language)
        for one in found.axes:
            columns = [Column(one.axis.capitalize(), style="cell")]
            columns += numbers(*map(display.count, one.budgets), unit=words("tokens"))
            rows: list[Row] = [
                (level, *(_at(found_at, at, language) for found_at in one.budgets.values()))
                for at, level in enumerate(one.levels)
            ]
            caption = words("by_length", title=found.quality, axis=words(f"axis_{one.axis}"))
            blocks.append(Table(caption, columns, rows, style="effects"))
    if fronts:
        tiles: list[Sequence[Block]] = []
        for at, one_front in enumerate(fronts, 1):
            tiles.append((front_figure(one_front, at, language), _front_table(one_front, language)))
        blocks += [PageHeading(words("front")), explain("front", language), Tiles(tiles)]
    return section("contexts", blocks, language=language) if blocks else None


def _at(found: Levels, at: int, language: Language) -> TableFigure:
    if at == found.best:
        return TableFigure(bold(display.number(found.mean[at])), (words_in(CHARTS, language)("best"),))
    return TableFigure(
        mark(found.standing(at), language) + display.number(found.mean[at]),
        (display.with_sign(found.difference[at]), display.p_value(found.p[at])),
    )


def _front_table(front: Front, language: Language) -> Table:
    words, cost = words_in(CHARTS, language), _cost_title(front, language)
    columns = [
        Column(words("of", n=len(front.points), of=front.of), style="cell"),
        *numbers(cost, unit=_unit(front, words)),
        *numbers(metric_title(front.quality, language)),
    ]
    rows = [
        (bold(str(n)) + f" {_named(one, words)}", _cost(one.cost, front.unit), display.number(one.value))
        for n, one in enumerate(front.points, 1)
    ]
    return Table(words("and_cost", title=front.quality, cost=cost), columns, rows, style="front")


def _front_about(front: Front, language: Language) -> str:
    words, cheap, dear = words_in(CHARTS, language), front.points[0], front.points[-1]
    line, name = several(words, "line", len(front.points), of=front.of), _named(dear, words)
    if cheap is dear:
        as_cheap = sum(one.cost <= cheap.cost for one in front.all) - 1
        if as_cheap:
            return several(words, "as_cheap", as_cheap, line=line, cell=name)
        return words("alone", line=line, cell=name)
    spent = words("instead", cost=cost_words(dear.cost, front.unit))
    if cheap.cost > 0:
        unit = front.unit if front.unit in {"tokens", "s", "US$"} else ""
        spent = words(f"times_{unit}", times=display.times(dear.cost / cheap.cost))
    more, least = display.number(abs(dear.value - cheap.value)), _named(cheap, words)
    text = words("better", line=line, dear=name, more=more, cheap=least, spent=spent)
    differ = len({one.cost for one in front.all if one.tied}) > 1
    return text + (words("near") if differ else "")


def _named(one: Bought, words: Words) -> str:
    return f"{one.label} ({several(words, 'n_passages', one.depth)})" if one.depth else one.label


def roc_figure(data: ReportData) -> Plane | None:
    """Return a curve of each judge, metric and kind of labels with both good and bad answers, if any."""
    pairs = data.judge_pairs
    if pairs is None or not pairs.height:
        return None
    by = ["judge", "metric", "slice"]
    sided = pairs.group_by(by).agg(pl.col("good").sum().alias("_good"), n=pl.len())
    found = sided.filter((pl.col("_good") > 0) & (pl.col("_good") < pl.col("n"))).sort(
        ["n", *by], descending=[True, False, False, False], nulls_last=True
    )
    shown = [_RocCurve(data, pairs, row) for row in found.head(limits.ROC_CURVES).iter_rows(named=True)]
    if not shown:
        return None
    shown.sort(key=lambda one: -one.area)
    across, up = marks.Scale(0.0, 1.0), marks.upward(marks.Scale(0.0, 1.0))
    x_ticks, y_ticks = marks.grid(across, up)
    lines = [one.line(at, across, up) for at, one in enumerate(shown)]
    further = found.height - len(shown)
    columns = [Column("Judge and metric"), *numbers("at least", "good passed", "bad passed")]
    rows = [row for one in shown for row in one.rows()]
    table = Table("The curves as a table", columns, rows, style="values")
    return Plane(
        "chart-roc",
        "Judges against human labels: ROC",
        _roc_about(shown),
        "share of bad answers passed",
        "share of good answers passed",
        x_ticks,
        y_ticks,
        lines=tuple(lines),
        table=Details("The curves as a table", [table]),
        diagonal="chance (AUC 0.5)",
        rest=display.left_out("they are of fewer answers; their areas stand in the cards", curve=further),
    )


class _RocCurve:
    def __init__(self, data: ReportData, pairs: pl.DataFrame, row: dict[str, object]) -> None:
        self.judge, self.metric, self.by = str(row["judge"]), str(row["metric"]), row["slice"]
        same = (pl.col("judge") == self.judge) & (pl.col("metric") == self.metric)
        of_slice = pl.col("slice").eq_missing(pl.lit(self.by, pl.String))
        own = pairs.filter(same & of_slice)
        self.n = own.height
        self.curve = roc_curve(own["good"].to_numpy(), own["value"].to_numpy())
        self.area = float(np.trapezoid(self.curve.good, self.curve.bad))
        cards = data.judge_cards
        self.ends, self.low = "–", 0.0
        if cards is not None:
            card = cards.filter(same & of_slice & (pl.col("measure") == "auc")).head(1)
            for low, high in card.select("low", "high").iter_rows():
                self.ends, self.low = display.interval(low, high), low or 0.0

    @property
    def name(self) -> str:
        by = f"against {self.by}" if self.by else "against labelled cases"
        return f"{self.judge}.{self.metric} {by}"

    def line(self, at: int, across: marks.Scale, up: marks.Scale) -> PlotLine:
        best = int(np.argmax(self.curve.good - self.curve.bad))
        words = f"AUC {display.number(self.area)}" + (f" [{self.ends}]" if self.ends != "–" else "")
        return PlotLine(
            marks.polyline(self.curve.bad.tolist(), self.curve.good.tolist(), across, up),
            at % marks.STYLES,
            self.name,
            (f"{words}, n = {self.n}",),
            at + 1,
            (across.at(float(self.curve.bad[best])), up.at(float(self.curve.good[best]))),
        )

    def rows(self) -> list[tuple[str, ...]]:
        every = range(1, len(self.curve.at))
        step = max(1, len(every) // limits.ROC_POINTS)
        shares = [map(display.percent, column.tolist()) for column in (self.curve.good, self.curve.bad)]
        rows = list(zip(map(display.number, self.curve.at.tolist()), *shares, strict=True))
        return [(self.name, *rows[at]) for at in every[::step]]


def _roc_about(shown: Sequence[_RocCurve]) -> str:
    best = shown[0]
    words = (
        "A judge's value as a threshold, from the strictest on the left to the laxest: a curve that climbs "
        "at once tells what people call good from what they call bad; the diagonal is chance"
    )
    if not any(one.low > 0.5 for one in shown):
        largest = display.number(best.area)
        return f"{words}. None is shown to be better than chance (the largest AUC is {largest})."
    than = f", {shown[-1].name} least ({display.number(shown[-1].area)})" if len(shown) > 1 else ""
    return f"{words}. {best.name} tells them best (AUC {display.number(best.area)}){than}."


MOST = 12  # rows that are shown
NAME = "risk_coverage"
_OTHERS = {"abstention", "citation_precision", "citation_recall"}  # say less of how good an answer is


def risk_section(data: ReportData, cells: Sequence[str], labels: Mapping[str, str]) -> PageSection | None:
    """Return the risk-coverage curves of ``cells``, in this order; None where no answer has one."""
    metric, curves = loss_metric(data), _risk_curves(data)
    found = {cell: curves[cell] for cell in cells if cell in curves}
    if metric is None or not found:
        return None
    shown = list(found.items())[:MOST]
    most = max(float(max(curve.risk.max(), curve.ideal.max())) for _, (curve, _) in shown) or 1.0
    rows: list[Row] = [
        (
            labels.get(cell, cell),
            TableFigure("", drawn=_drawn(curve, most)),
            TableFigure(display.number(curve.area), (display.interval(curve.low, curve.high),)),
            display.number(curve.excess),
            display.number(float(curve.risk[-1])),
            TableFigure(display.percent(share), (f"n = {curve.n}",)),
        )
        for cell, (curve, share) in shown
    ]
    columns = [
        Column("Cell"),
        Column(f"Risk by coverage, up to {display.number(most)}"),
        *numbers("Area", "Above the best order", "Risk of all answers", "Answered"),
    ]
    rest = display.left_out(display.IN_ROWS, cell=len(found) - len(shown))
    table = Table("Confidence", columns, rows, rest, "risk stack")
    return section("risk", [table], metric=metric.title, ideal=display.quantity(metric.ideal, metric.unit))


def _drawn(curve: RiskCoverage, most: float) -> Markup:
    across, up = marks.Scale(0.0, 1.0), marks.upward(marks.Scale(0.0, most))
    ideal, line = (
        marks.polyline(curve.coverage.tolist(), risk.tolist(), across, up)
        for risk in (curve.ideal, curve.risk)
    )
    return Markup(
        '<svg class="curve" role="img" aria-label="risk rises from {} to {}" viewBox="0 0 100 100" '
        'preserveAspectRatio="none" width="200" height="56">'
        '<line class="axis" x1="0" x2="100" y1="100" y2="100"/>'
        '<polyline class="best" points="{}"/><polyline points="{}"/></svg>'
    ).format(display.number(curve.risk[0]), display.number(float(curve.risk[-1])), ideal, line)


def risk_rows(data: ReportData) -> list[dict[str, Any]]:
    """Return the area under each cell's curve, in the columns of the leaderboard."""
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
            "coverage": share,
            **{name: getattr(curve, name) for name in ("n", "low", "high")},
        }
        for cell, (curve, share) in _risk_curves(data).items()
        if cell in board
    ]


def loss_metric(data: ReportData) -> MetricInfo | None:
    """Return the first bounded metric of answers, abstention and citations last."""
    found = [one for one in data.metrics if one.kind == "answer" and None not in one.bounds]
    return next((one for one in found if one.name not in _OTHERS), next(iter(found), None))


@lru_cache(maxsize=1)  # the page and the rows beside it show them
def _risk_curves(data: ReportData) -> dict[str, tuple[RiskCoverage, float]]:
    """Return cell -> its curve and the share of its questions on it."""
    metric = loss_metric(data)
    if metric is None:
        return {}
    of = ["cell", "question_id"]
    good = data.answers.filter(pl.col("status") == "ok")
    answered = good.group_by(of).agg(pl.col("confidence").drop_nulls().first())
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
    order = data.leaderboard["cell"].unique(maintain_order=True)
    return {cell: found[cell] for cell in order if cell in found}
