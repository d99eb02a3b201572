"""Charts of the pages: Streamlit's own (Vega-Lite), in colours that are seen on light and dark paper alike.

What is text in them is drawn, never read as markup; days are those of the table, wherever the browser is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import altair as alt
import polars as pl

Chart = alt.Chart | alt.LayerChart | alt.FacetChart
Column = Callable[[str], str]
"""Name of a column -> what the page calls it."""

BLUE, AMBER, RED, GREEN, GREY = "#2f7fb5", "#b8730f", "#c9483f", "#2a8a5b", "#7f8a94"
_HEIGHT = 240
_ROW = 26  # of a bar that lies
_DAY: dict[str, Any] = {"shorthand": "day:T", "timeUnit": "utcyearmonthdate"}
_COUNTS = alt.Axis(tickMinStep=1)
_NAMES = alt.Y(
    "name:N",
    title=None,
    sort=None,
    # pixels of a name beside a bar
    axis=alt.Axis(labelLimit=alt.ExprRef("containerSize()[0] < 600 ? 120 : 280"), labelOverlap=False),
)
_LEGEND = alt.Legend(orient="top", title=None, offset=6)


def days_stacked(rows: pl.DataFrame, colours: Mapping[str, str], what: str, column: Column) -> alt.Chart:
    places = pl.DataFrame({"part": list(colours), "place": range(len(colours))})
    bars = alt.Chart(_parts(_dated(rows), colours, "day").join(places, on="part")).mark_bar()
    return bars.encode(
        **_of_days(column, alt.Tooltip("part:N", title=column("name")), alt.Tooltip("n:Q", title=what)),
        y=alt.Y("sum(n):Q", title=what, axis=_COUNTS),
        color=_colours(colours),
        order=alt.Order("place:Q"),
    ).properties(height=_HEIGHT)


def days_lines(
    rows: pl.DataFrame, colours: Mapping[str, str], what: str, column: Column, *, from_zero: bool = True
) -> alt.Chart:
    every = pl.DataFrame({"day": pl.date_range(rows["day"].min(), rows["day"].max(), eager=True)})  # type: ignore[arg-type]
    # A day without data breaks the line: Vega-Lite draws none over a null.
    whole = every.join(rows.select("day", *colours), on="day", how="left")
    value = alt.Tooltip("n:Q", format=".4g", title=what)
    lines = alt.Chart(_parts(_dated(whole), colours, "day")).mark_line(point=True)
    return lines.encode(
        **_of_days(column, alt.Tooltip("part:N", title=column("name")), value),
        y=alt.Y("n:Q", title=what, scale=alt.Scale(zero=from_zero)),
        color=_colours(colours),
    ).properties(height=_HEIGHT)


def lying_bars(rows: pl.DataFrame, colours: Mapping[str, str], what: str, column: Column) -> alt.Chart:
    places = rows.with_row_index("place").with_columns(pl.col("place").cast(pl.Int64))
    bars = alt.Chart(_parts(places, colours, "place", "name")).mark_bar()
    return bars.encode(
        x=alt.X("sum(n):Q", title=what, axis=_COUNTS),
        y=_NAMES,
        color=_colours(colours),
        tooltip=[
            alt.Tooltip("name:N", title=column("name")),
            alt.Tooltip("part:N", title=what),
            alt.Tooltip("n:Q", title=what),
        ],
    ).properties(height=_ROW * len(rows) + 100)


def intervals(rows: pl.DataFrame, what: str, column: Column, bounds: Sequence[float] | None = None) -> Chart:
    """rows: `name`, `value`, `low`, `high`; where an end is missing, there is no line"""
    scale = alt.Scale(zero=False) if bounds is None else alt.Scale(domain=list(bounds))
    base = alt.Chart(rows.select("name", "value", "low", "high")).encode(
        y=_NAMES, tooltip=_interval_tips(column)
    )
    low = alt.X("low:Q", scale=scale, title=what, axis=alt.Axis(tickCount=6))
    lines = base.mark_rule(color=BLUE, size=2).encode(x=low, x2="high:Q")
    points = _points(base).encode(x=alt.X("value:Q", scale=scale, title=what))
    return alt.layer(lines, points).properties(height=_ROW * len(rows) + 60)


def over_time(rows: pl.DataFrame, what: str, column: Column) -> Chart:
    """Return points with intervals over time. rows: `since`, `name`, `value`, `low`, `high`."""
    shown = rows.with_columns(pl.col("since").dt.convert_time_zone("UTC").dt.strftime("%Y-%m-%dT%H:%M:%SZ"))
    axis = alt.Axis(format="%Y-%m-%d", tickCount=5)
    base = alt.Chart(shown).encode(
        x=alt.X("since:T", title=None, scale=alt.Scale(type="utc"), axis=axis), tooltip=_interval_tips(column)
    )
    scale = alt.Scale(zero=False)
    value = alt.Y("value:Q", scale=scale)
    lines = base.mark_rule(color=BLUE, size=2).encode(y=alt.Y("low:Q", title=what, scale=scale), y2="high:Q")
    line = base.mark_line(color=BLUE, opacity=0.5, interpolate="step-after").encode(y=value)
    return alt.layer(line, lines, _points(base).encode(y=value)).properties(height=_HEIGHT)


def heat(rows: pl.DataFrame, weekdays: Sequence[str], column: Column) -> alt.Chart:
    """Return a week by hours. rows: `weekday` from 1, `hour`, `questions`."""
    named = rows.with_columns(pl.Series("name", [weekdays[n - 1] for n in rows["weekday"]], pl.String))
    hours, days = alt.Scale(domain=list(range(24))), alt.Scale(domain=list(weekdays))
    shades = alt.Scale(range=["#9cc7e4", "#0b4a70"], zero=True)
    tips = {"name:N": "day", "hour:O": "hour", "questions:Q": "questions"}
    return (
        alt.Chart(named)
        .mark_rect()
        .encode(
            x=alt.X("hour:O", title=column("hour"), scale=hours, axis=alt.Axis(labelAngle=0)),
            y=alt.Y("name:O", title=None, scale=days, axis=alt.Axis(labelOverlap=False)),
            color=alt.Color("questions:Q", title=column("questions"), scale=shades, legend=_LEGEND),
            tooltip=[alt.Tooltip(field, title=column(name)) for field, name in tips.items()],
        )
        .properties(height=_ROW * 7 + 110)
    )


def _parts(rows: pl.DataFrame, colours: Mapping[str, str], *index: str) -> pl.DataFrame:
    chosen = rows.select(*index, *colours)
    return chosen.unpivot(list(colours), index=list(index), variable_name="part", value_name="n")


def _dated(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.with_columns(pl.col("day").dt.strftime("%Y-%m-%dT00:00:00Z"))


def _of_days(column: Column, *tips: alt.Tooltip) -> dict[str, Any]:
    day = alt.Tooltip(**_DAY, format="%Y-%m-%d", title=column("day"))
    return {
        "x": alt.X(**_DAY, title=None, axis=alt.Axis(format="%-d %b", labelAngle=0)),
        "tooltip": [day, *tips],
    }


def _interval_tips(column: Column) -> list[alt.Tooltip]:
    values = [alt.Tooltip(f"{one}:Q", format=".4g", title=column(one)) for one in ("value", "low", "high")]
    return [alt.Tooltip("name:N", title=column("name")), *values]


def _points(base: alt.Chart) -> alt.Chart:
    return base.mark_point(color=BLUE, filled=True, size=70, opacity=1)


def _colours(colours: Mapping[str, str]) -> alt.Color:
    scale = alt.Scale(domain=list(colours), range=list(colours.values()))
    return alt.Color("part:N", scale=scale, legend=_LEGEND, sort=list(colours))
