"""The panels of the page of usage: each a sentence, a chart and the table that the chart is of."""

from __future__ import annotations

from contextlib import AbstractContextManager

import polars as pl
import streamlit as st

from rag_assay.evals.reporting.display import MISSING, count, number, percent, several, truncate
from rag_assay.orchestration.web import charts
from rag_assay.orchestration.web.board import chart, looking, section, table
from rag_assay.orchestration.web.chat.answer_html import label
from rag_assay.orchestration.web.usage import labels
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.tables import use_database
from rag_assay.warehouse.usage import MOST, PANELS, Usage, panel

OUTCOMES = {"answered": charts.BLUE, "declined": charts.AMBER, "failed": charts.RED}
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_BARS = 12  # documents, and cells, that a chart shows
_NAME = 60  # characters of a name beside a bar


class Panels:
    """The panels of one look, shown one after the other."""

    def __init__(self, shown: Usage, home: Home) -> None:
        self.shown = shown
        self.home = home

    def rows(self, name: str) -> pl.DataFrame:
        return self.shown.panels[name]

    def table(self, name: str, *, folded: bool = True) -> None:
        """Show the rows of a panel; its file has all of them."""
        rows = self.rows(name)
        cut = PANELS[name].is_list and len(rows) >= MOST
        note = f"The first {count(MOST)}; the file has all." if cut else ""
        key = f"{name}-demo" if self.shown.wanted.demo else name
        table(key, PANELS[name].title, rows, lambda: self._all(name), folded=folded, note=note)

    def _all(self, name: str) -> pl.DataFrame:
        with looking("The file follows.") as say:
            return use_database(self.home, lambda one: panel(one, name, self.shown.wanted), say)


def show_panels(shown: Usage, home: Home) -> None:
    """Show the panels that have rows."""
    panels = Panels(shown, home)
    _in_all(panels)
    _questions(panels)
    _unanswered(panels)
    _feedback(panels)
    _votes(panels)
    _latency(panels)
    _models(panels)
    _scores(panels)
    _leaders(panels)
    _documents(panels)
    _hours(panels)
    _people(panels)


def _in_all(panels: Panels) -> None:
    total = panels.rows("totals").row(0, named=True)
    thumbs = panels.rows("feedback").row(0, named=True)
    stages = {row["stage"]: row for row in panels.rows("latency").iter_rows(named=True)}
    whole, models = stages.get("whole"), panels.rows("models")
    n = total["answers"]
    with st.container(key="figures", horizontal=True):
        st.metric("Questions", count(total["questions"]), border=True)
        st.metric("Answered", percent(total["answered"] / n) if n else MISSING, border=True)
        st.metric("Thumbs up", percent(thumbs["share"]), border=True)
        seconds = f"{number(whole['p50'], 's')} / {number(whole['p95'], 's')} s" if whole else MISSING
        st.metric("Wait, p50 / p95", seconds, border=True)
        st.metric("Paid by chats", labels.paid(models, "chat"), border=True)
        if not panels.shown.wanted.demo:
            st.metric("Paid by runs", labels.paid(models, "study"), border=True)
    st.caption(label(labels.totals_words(total), 400))


def _questions(panels: Panels) -> None:
    rows = panels.rows("questions")
    if rows.is_empty():
        return
    with _section("questions"):
        most = rows.sort("questions", descending=True).row(0, named=True)
        chart(
            charts.days_stacked(rows, OUTCOMES, "answers"),
            f"Bars of answers a day; the most questions, {most['questions']}, on {most['day']}.",
        )
        panels.table("questions")


def _unanswered(panels: Panels) -> None:
    rows = panels.rows("unanswered")
    if rows.is_empty():
        return
    with _section("unanswered"):
        said = ", ".join(
            f"{n} × {why.replace('_', ' ')}" for why, n in sorted(rows["why"].value_counts().iter_rows())
        )
        st.markdown(label(f"{said}.", 300))
        panels.table("unanswered", folded=False)


def _feedback(panels: Panels) -> None:
    rows, told = panels.rows("feedback"), panels.rows("sentences")
    whole, cells = rows.row(0, named=True), rows.slice(1).filter(pl.col("share").is_not_null())
    if whole["share"] is None and told.is_empty():
        return
    with _section("feedback"):
        st.markdown(label(f"Thumbs up: {labels.share_words(whole)}.", 300))
        if len(cells):
            best = cells.sort("up", descending=True).head(_BARS)
            named = best.select(
                pl.col("cell").map_elements(_short, pl.String).alias("name"),
                value="share",
                low="low",
                high="high",
            )
            chart(
                charts.intervals(named, "share of thumbs up", (0, 1)),
                "A point with its interval a cell; the table has the figures.",
            )
            panels.table("feedback")
        if len(told):
            st.subheader(PANELS["sentences"].title, anchor=False)
            panels.table("sentences", folded=False)


def _votes(panels: Panels) -> None:
    rows = panels.rows("votes")
    if rows.is_empty():
        return
    with _section("votes"):
        st.markdown(label(labels.votes_words(rows.row(0, named=True)), 400))
        named = (
            rows.filter(pl.col("share").is_not_null())
            .head(_BARS)
            .select(
                pl.struct("cell", "rival").map_elements(_pair, pl.String).alias("name"),
                value="share",
                low="low",
                high="high",
            )
        )
        if len(named):
            chart(
                charts.intervals(named, "share of votes for the first", (0, 1)),
                "A point with its interval a pair of cells; the table has the figures.",
            )
        panels.table("votes")


def _pair(row: dict[str, str]) -> str:
    return truncate(f"{_own(row['cell'])} rather than {_own(row['rival'])}", 2 * _NAME)


def _latency(panels: Panels) -> None:
    days = panels.rows("latency_days")
    if days.is_empty():
        return
    with section("latency", "Latency", PANELS["latency"].about):
        st.markdown(label(labels.latency_words(panels.rows("latency")), 400))
        if len(days):
            colours = {"p50": charts.BLUE, "p95": charts.AMBER}
            chart(
                charts.days_lines(days, colours, "seconds"),
                "Lines of the median and the 95th percentile a day.",
            )
            panels.table("latency")
            panels.table("latency_days")


def _models(panels: Panels) -> None:
    rows = panels.rows("models")
    if rows.is_empty():
        return
    with _section("models"):
        st.markdown(
            label(f"Conversations: {labels.paid(rows, 'chat')}. Runs: {labels.paid(rows, 'study')}.", 400)
        )
        named = rows.with_columns(
            name=pl.concat_str(
                "used_by", "purpose", "model", separator=" · ", ignore_nulls=True
            ).map_elements(lambda text: truncate(text, _NAME), pl.String)
        )
        parts = {"prompt_tokens": charts.BLUE, "completion_tokens": charts.GREEN}
        chart(charts.lying_bars(named, "name", parts, "tokens"), "A bar of tokens a model and purpose.")
        told = rows.with_columns(
            paid=pl.struct("usd", "unpriced", "calls").map_elements(
                lambda one: labels.money(one["usd"], one["unpriced"], one["calls"]), pl.String
            )
        ).drop("usd")
        table("models", PANELS["models"].title, told, lambda: rows)


def _scores(panels: Panels) -> None:
    rows = panels.rows("scores")
    cells = (
        rows.group_by("cell")
        .agg(pl.col("n").sum())
        .sort("n", "cell", descending=[True, False])["cell"]
        .to_list()
    )
    if not cells:
        return
    with _section("scores"):
        chosen = st.selectbox("Cell of the chart", cells, key="score_cell") if len(cells) > 1 else cells[0]
        mine = rows.filter(pl.col("cell") == chosen)
        colours = {"top_score": charts.BLUE, "confidence": charts.AMBER}
        chart(
            charts.days_lines(mine, colours, "median", from_zero=False),
            "Lines of the median of the first passage's score, and of the confidence, a day.",
        )
        panels.table("scores")


def _leaders(panels: Panels) -> None:
    rows = panels.rows("leaders")
    studies = rows["study"].unique().sort().to_list()
    if not studies:
        return
    with _section("leaders"):
        chosen = (
            st.selectbox("Study of the chart", studies, key="leader_study")
            if len(studies) > 1
            else studies[0]
        )
        mine = rows.filter(pl.col("study") == chosen)
        last = mine.row(-1, named=True)
        if last["leader"] is not None:
            who = f"{_short(last['leader'])} since {last['since']:%Y-%m-%d %H:%M}"
            others = (last["tied"] or 1) - 1  # it is one of them itself
            tied = f"; {several(others, 'other cell')} tied with it" if others else ""
            st.markdown(label(f"{chosen}: {who}, by {last['metric']} {number(last['value'])}{tied}.", 400))
        named = mine.filter(pl.col("value").is_not_null()).select(
            "since", pl.col("leader").map_elements(_short, pl.String).alias("name"), "value", "low", "high"
        )
        if len(named):
            chart(
                charts.over_time(named, last["metric"] or "value"),
                "The leader's value with its interval, by result.",
            )
        panels.table("leaders")


def _documents(panels: Panels) -> None:
    rows = panels.rows("documents")
    if rows.is_empty():
        return
    with _section("documents"):
        first = rows.head(_BARS)
        names, titles = [], set[str]()
        for row in first.iter_rows(named=True):
            name = truncate(row["title"] or row["url"] or row["doc_id"], _NAME)
            names.append(
                name if name not in titles else f"{truncate(name, _NAME - 15)} ({row['doc_id'][:10]})"
            )
            titles.add(name)
        bars = first.select(
            pl.Series("name", names), "cited", (pl.col("shown") - pl.col("cited")).alias("not cited")
        )
        chart(
            charts.lying_bars(bars, "name", {"cited": charts.BLUE, "not cited": charts.GREY}, "answers"),
            f"A bar a document, the first {len(first)}: answers that cite it, and others that were shown it.",
        )
        panels.table("documents")


def _hours(panels: Panels) -> None:
    rows = panels.rows("hours")
    if rows.is_empty():
        return
    with _section("hours"):
        top = rows.sort("questions", descending=True).row(0, named=True)
        busiest = f"{WEEKDAYS[top['weekday'] - 1]} {top['hour']}:00 to {top['hour'] + 1}:00"
        st.markdown(label(f"Busiest: {busiest} ({several(top['questions'], 'question')}).", 200))
        chart(charts.heat(rows, WEEKDAYS), f"Questions by weekday and hour; the busiest is {busiest}.")
        panels.table("hours")


def _people(panels: Panels) -> None:
    if panels.rows("people").is_empty():
        return
    with _section("people"):
        panels.table("people", folded=False)


def _section(name: str) -> AbstractContextManager[None]:
    return section(name, PANELS[name].title, PANELS[name].about)


def _short(cell: str) -> str:
    return truncate(_own(cell), _NAME)


def _own(cell: str) -> str:
    return cell.partition(".")[2] or cell
