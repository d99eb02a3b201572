"""Charts of the pages: Streamlit's own (Vega-Lite), in colours that are seen on light and dark paper alike.

What is text in them is drawn, never read as markup; days are those of the table, wherever the browser is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import altair as alt
import polars as pl

Chart = alt.Chart | alt.LayerChart | alt.FacetChart
Column = Callable[[str], str]
"""Name of a column -> what the page calls it."""

BLUE, AMBER, RED, GREEN, GREY = "#2f7fb5", "#b8730f", "#c9483f", "#2a8a5b", "#7f8a94"
_HEIGHT = 240
_ROW = 26  # of a bar that lies
_LONGEST = alt.ExprRef("containerSize()[0] < 600 ? 120 : 280")  # pixels of a name beside a bar


def days_stacked(rows: pl.DataFrame, colours: Mapping[str, str], what: str, column: Column) -> alt.Chart:
    """Return bars a day, in parts one above the other.

    colours: columns -> their colours, the lowest part first
    """
    names = list(colours)
    long = _dated(rows.select("day", *names)).unpivot(names, index="day", variable_name="how", value_name="n")
    order = pl.DataFrame({"how": names, "place": range(len(names))})
    return (
        alt.Chart(long.join(order, on="how"))
        .mark_bar()
        .encode(
            x=_day(),
            y=alt.Y("sum(n):Q", title=what, axis=alt.Axis(tickMinStep=1)),
            color=alt.Color("how:N", scale=_colours(colours), legend=_legend(), sort=names),
            order=alt.Order("place:Q"),
            tooltip=[
                _day_tip(column),
                alt.Tooltip("how:N", title=column("name")),
                alt.Tooltip("n:Q", title=what),
            ],
        )
        .properties(height=_HEIGHT)
    )


def days_lines(
    rows: pl.DataFrame, colours: Mapping[str, str], what: str, column: Column, *, from_zero: bool = True
) -> alt.Chart:
    """Return a line a column over days, with a point a day; it is broken where a day has no data."""
    every = pl.DataFrame({"day": pl.date_range(rows["day"].min(), rows["day"].max(), eager=True)})  # type: ignore[arg-type]
    # A day without data breaks the line: Vega-Lite draws none over a null.
    long = _dated(every.join(rows.select("day", *colours), on="day", how="left")).unpivot(
        list(colours), index="day", variable_name="which", value_name="n"
    )
    return (
        alt.Chart(long)
        .mark_line(point=True)
        .encode(
            x=_day(),
            y=alt.Y("n:Q", title=what, scale=alt.Scale(zero=from_zero)),
            color=alt.Color("which:N", scale=_colours(colours), legend=_legend(), sort=list(colours)),
            tooltip=[
                _day_tip(column),
                alt.Tooltip("which:N", title=column("name")),
                alt.Tooltip("n:Q", format=".4g", title=what),
            ],
        )
        .properties(height=_HEIGHT)
    )


def lying_bars(
    rows: pl.DataFrame, name: str, colours: Mapping[str, str], what: str, column: Column
) -> alt.Chart:
    """Return a bar a row, in the order of the rows, in parts one beside the other.

    name: the column that says what a bar is of
    """
    places = rows.with_row_index("place").with_columns(pl.col(name).alias("name"))
    long = places.select("place", "name", *colours).unpivot(
        list(colours), index=["place", "name"], variable_name="part", value_name="n"
    )
    return (
        alt.Chart(long.with_columns(pl.col("place").cast(pl.Int64)))
        .mark_bar()
        .encode(
            x=alt.X("sum(n):Q", title=what, axis=alt.Axis(tickMinStep=1)),
            y=_names(),
            color=alt.Color("part:N", scale=_colours(colours), legend=_legend(), sort=list(colours)),
            tooltip=[
                alt.Tooltip("name:N", title=column("name")),
                alt.Tooltip("part:N", title=what),
                alt.Tooltip("n:Q", title=what),
            ],
        )
        .properties(height=_ROW * len(rows) + 100)
    )


def intervals(rows: pl.DataFrame, what: str, column: Column, bounds: Sequence[float] | None = None) -> Chart:
    """Return a point with its interval a row, in the order of the rows.

    rows: `name`, `value`, `low`, `high`; where an end is missing, there is no line
    """
    places = rows.select("name", "value", "low", "high")
    scale = alt.Scale(zero=False) if bounds is None else alt.Scale(domain=list(bounds))
    base = alt.Chart(places).encode(y=_names(), tooltip=_interval_tips(column))
    lines = base.mark_rule(color=BLUE, size=2).encode(
        x=alt.X("low:Q", scale=scale, title=what, axis=alt.Axis(tickCount=6)), x2="high:Q"
    )
    points = base.mark_point(color=BLUE, filled=True, size=70, opacity=1).encode(
        x=alt.X("value:Q", scale=scale, title=what)
    )
    return alt.layer(lines, points).properties(height=_ROW * len(rows) + 60)


def over_time(rows: pl.DataFrame, what: str, column: Column) -> Chart:
    """Return points with intervals over time. rows: `since`, `name`, `value`, `low`, `high`."""
    shown = rows.with_columns(pl.col("since").dt.convert_time_zone("UTC").dt.strftime("%Y-%m-%dT%H:%M:%SZ"))
    base = alt.Chart(shown).encode(
        x=alt.X(
            "since:T", title=None, scale=alt.Scale(type="utc"), axis=alt.Axis(format="%Y-%m-%d", tickCount=5)
        ),
        tooltip=_interval_tips(column),
    )
    scale = alt.Scale(zero=False)
    lines = base.mark_rule(color=BLUE, size=2).encode(y=alt.Y("low:Q", title=what, scale=scale), y2="high:Q")
    line = base.mark_line(color=BLUE, opacity=0.5, interpolate="step-after").encode(
        y=alt.Y("value:Q", scale=scale)
    )
    points = base.mark_point(color=BLUE, filled=True, size=70, opacity=1).encode(
        y=alt.Y("value:Q", scale=scale)
    )
    return alt.layer(line, lines, points).properties(height=_HEIGHT)


def heat(rows: pl.DataFrame, weekdays: Sequence[str], column: Column) -> alt.Chart:
    """Return a week by hours. rows: `weekday` from 1, `hour`, `questions`."""
    named = rows.with_columns(pl.Series("name", [weekdays[n - 1] for n in rows["weekday"]], pl.String))
    return (
        alt.Chart(named)
        .mark_rect()
        .encode(
            x=alt.X(
                "hour:O",
                title=column("hour"),
                scale=alt.Scale(domain=list(range(24))),
                axis=alt.Axis(labelAngle=0),
            ),
            y=alt.Y(
                "name:O",
                title=None,
                scale=alt.Scale(domain=list(weekdays)),
                axis=alt.Axis(labelOverlap=False),
            ),
            color=alt.Color(
                "questions:Q",
                title=column("questions"),
                scale=alt.Scale(range=["#9cc7e4", "#0b4a70"], zero=True),
                legend=_legend(),
            ),
            tooltip=[
                alt.Tooltip("name:N", title=column("day")),
                alt.Tooltip("hour:O", title=column("hour")),
                alt.Tooltip("questions:Q", title=column("questions")),
            ],
        )
        .properties(height=_ROW * 7 + 110)
    )


def _dated(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.with_columns(pl.col("day").dt.strftime("%Y-%m-%dT00:00:00Z"))


def _day() -> alt.X:
    return alt.X(
        "day:T", timeUnit="utcyearmonthdate", title=None, axis=alt.Axis(format="%-d %b", labelAngle=0)
    )


def _day_tip(column: Column) -> alt.Tooltip:
    return alt.Tooltip("day:T", timeUnit="utcyearmonthdate", format="%Y-%m-%d", title=column("day"))


def _interval_tips(column: Column) -> list[alt.Tooltip]:
    values = [alt.Tooltip(f"{one}:Q", format=".4g", title=column(one)) for one in ("value", "low", "high")]
    return [alt.Tooltip("name:N", title=column("name")), *values]


def _names() -> alt.Y:
    return alt.Y("name:N", title=None, sort=None, axis=alt.Axis(labelLimit=_LONGEST, labelOverlap=False))


def _colours(colours: Mapping[str, str]) -> alt.Scale:
    return alt.Scale(domain=list(colours), range=list(colours.values()))


def _legend() -> alt.Legend:
    return alt.Legend(orient="top", title=None, offset=6)
