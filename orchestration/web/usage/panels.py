"""The panels of the page of usage: each a sentence, a chart and the table that the chart is of."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager

import polars as pl
import streamlit as st

from rag_assay.evals.reporting.display import MISSING, count, number, percent, truncate
from rag_assay.orchestration.web import charts
from rag_assay.orchestration.web.board import chart, looking, section, table
from rag_assay.orchestration.web.chat.answer_html import label
from rag_assay.orchestration.web.languages import Words, language_here, several, words_in
from rag_assay.orchestration.web.outcomes import TEXTS as OUTCOME_TEXTS
from rag_assay.orchestration.web.outcomes import outcome
from rag_assay.orchestration.web.usage import labels
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.tables import use_database
from rag_assay.warehouse.usage import MOST, PANELS, Usage, panel

OUTCOMES = {"answered": charts.BLUE, "declined": charts.AMBER, "failed": charts.RED}
_BARS = 12  # documents, and cells, that a chart shows
_NAME = 60  # characters of a name beside a bar


class Panels:
    """The panels of one look, shown one after the other."""

    def __init__(self, shown: Usage, home: Home, words: Words) -> None:
        self.shown = shown
        self.home = home
        self.words = words
        self.outcomes = words_in(OUTCOME_TEXTS, language_here())

    def rows(self, name: str) -> pl.DataFrame:
        return self.shown.panels[name]

    def table(self, name: str, *, folded: bool = True) -> None:
        rows = self.rows(name)
        cut = PANELS[name].is_list and len(rows) >= MOST
        note = self.words("first_rows", n=count(MOST)) if cut else ""
        key = f"{name}-demo" if self.shown.wanted.demo else name
        title = self.words(f"title_{name}")
        table(key, title, rows, self.column, lambda: self._all(name), folded=folded, note=note)

    def column(self, name: str) -> str:
        return self.words(f"column_{name}")

    def parts(self, colours: Mapping[str, str]) -> dict[str, str]:
        """Return colours by the names that their columns have on the page."""
        return {self.column(name): colour for name, colour in colours.items()}

    def named(self, rows: pl.DataFrame, colours: Mapping[str, str]) -> pl.DataFrame:
        """Return rows whose coloured columns are called as the page calls them."""
        return rows.rename({name: self.column(name) for name in colours})

    def section(self, name: str) -> AbstractContextManager[None]:
        return section(name, self.words(f"title_{name}"), self.words(f"about_{name}"))

    def _all(self, name: str) -> pl.DataFrame:
        with looking() as say:
            return use_database(self.home, lambda one: panel(one, name, self.shown.wanted), say)


def show_panels(shown: Usage, home: Home, words: Words) -> None:
    """Show the panels that have rows."""
    panels = Panels(shown, home, words)
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
    whole, models, words = stages.get("whole"), panels.rows("models"), panels.words
    n = total["answers"]
    with st.container(key="figures", horizontal=True):
        st.metric(words("questions"), count(total["questions"]), border=True)
        st.metric(words("answered"), percent(total["answered"] / n) if n else MISSING, border=True)
        st.metric(words("thumbs_up"), percent(thumbs["share"]), border=True)
        seconds = f"{number(whole['p50'], 's')} / {number(whole['p95'], 's')} s" if whole else MISSING
        st.metric(words("wait"), seconds, border=True)
        st.metric(words("paid_chat"), labels.paid(words, models, "chat"), border=True)
        if not panels.shown.wanted.demo:
            st.metric(words("paid_study"), labels.paid(words, models, "study"), border=True)
    st.caption(label(labels.totals_words(words, total), 400))


def _questions(panels: Panels) -> None:
    rows = panels.rows("questions")
    if rows.is_empty():
        return
    with panels.section("questions"):
        words = panels.words
        most = rows.sort("questions", descending=True).row(0, named=True)
        chart(
            charts.days_stacked(
                panels.named(rows, OUTCOMES), panels.parts(OUTCOMES), words("axis_answers"), panels.column
            ),
            words("alt_questions", n=most["questions"], day=most["day"]),
        )
        panels.table("questions")


def _unanswered(panels: Panels) -> None:
    rows = panels.rows("unanswered")
    if rows.is_empty():
        return
    with panels.section("unanswered"):
        said = ", ".join(
            f"{n} × {outcome(why, panels.outcomes)}"
            for why, n in sorted(rows["why"].value_counts().iter_rows())
        )
        st.markdown(label(f"{said}.", 300))
        panels.table("unanswered", folded=False)


def _feedback(panels: Panels) -> None:
    rows, told, words = panels.rows("feedback"), panels.rows("sentences"), panels.words
    whole, cells = rows.row(0, named=True), rows.slice(1).filter(pl.col("share").is_not_null())
    if whole["share"] is None and told.is_empty():
        return
    with panels.section("feedback"):
        st.markdown(label(f"{words('thumbs_up')}: {labels.share_words(words, whole)}.", 300))
        if len(cells):
            best = cells.sort("up", descending=True).head(_BARS)
            named = best.select(
                pl.Series("name", map(_short, best["cell"]), pl.String),
                value="share",
                low="low",
                high="high",
            )
            chart(charts.intervals(named, words("axis_thumbs"), panels.column, (0, 1)), words("alt_feedback"))
            panels.table("feedback")
        if len(told):
            st.subheader(words("title_sentences"), anchor=False)
            panels.table("sentences", folded=False)


def _votes(panels: Panels) -> None:
    rows, words = panels.rows("votes"), panels.words
    if rows.is_empty():
        return
    with panels.section("votes"):
        st.markdown(label(labels.votes_words(words, rows.row(0, named=True)), 400))
        shown = rows.filter(pl.col("share").is_not_null()).head(_BARS)
        pairs = [_pair(row, words) for row in shown.iter_rows(named=True)]
        named = shown.select(pl.Series("name", pairs, pl.String), value="share", low="low", high="high")
        if len(named):
            chart(charts.intervals(named, words("axis_votes"), panels.column, (0, 1)), words("alt_votes"))
        panels.table("votes")


def _pair(row: dict[str, str], words: Words) -> str:
    return truncate(words("rather", cell=_own(row["cell"]), rival=_own(row["rival"])), 2 * _NAME)


def _latency(panels: Panels) -> None:
    days, words = panels.rows("latency_days"), panels.words
    if days.is_empty():
        return
    with section("latency", words("latency"), words("about_latency")):
        st.markdown(label(labels.latency_words(words, panels.rows("latency")), 400))
        if len(days):
            colours = {"p50": charts.BLUE, "p95": charts.AMBER}
            chart(
                charts.days_lines(days, colours, words("axis_seconds"), panels.column), words("alt_latency")
            )
            panels.table("latency")
            panels.table("latency_days")


def _models(panels: Panels) -> None:
    rows, words = panels.rows("models"), panels.words
    if rows.is_empty():
        return
    with panels.section("models"):
        spent = {who: labels.paid(words, rows, who) for who in ("chat", "study")}
        st.markdown(label(words("money_spent", **spent), 400))
        names = [" · ".join(filter(None, row)) for row in rows.select("used_by", "purpose", "model").rows()]
        named = rows.with_columns(pl.Series("name", [truncate(text, _NAME) for text in names], pl.String))
        parts = {"prompt_tokens": charts.BLUE, "completion_tokens": charts.GREEN}
        chart(
            charts.lying_bars(
                panels.named(named, parts), "name", panels.parts(parts), words("axis_tokens"), panels.column
            ),
            words("alt_models"),
        )
        paid = [labels.money(words, *row) for row in rows.select("usd", "unpriced", "calls").rows()]
        told = rows.with_columns(pl.Series("paid", paid, pl.String)).drop("usd")
        table("models", words("title_models"), told, panels.column, lambda: rows)


def _scores(panels: Panels) -> None:
    rows, words = panels.rows("scores"), panels.words
    cells = (
        rows.group_by("cell")
        .agg(pl.col("n").sum())
        .sort("n", "cell", descending=[True, False])["cell"]
        .to_list()
    )
    if not cells:
        return
    with panels.section("scores"):
        chosen = st.selectbox(words("score_cell"), cells, key="score_cell") if len(cells) > 1 else cells[0]
        mine = rows.filter(pl.col("cell") == chosen)
        colours = {"top_score": charts.BLUE, "confidence": charts.AMBER}
        chart(
            charts.days_lines(
                panels.named(mine, colours),
                panels.parts(colours),
                words("axis_median"),
                panels.column,
                from_zero=False,
            ),
            words("alt_scores"),
        )
        panels.table("scores")


def _leaders(panels: Panels) -> None:
    rows, words = panels.rows("leaders"), panels.words
    studies = rows["study"].unique().sort().to_list()
    if not studies:
        return
    with panels.section("leaders"):
        chosen = (
            st.selectbox(words("leader_study"), studies, key="leader_study")
            if len(studies) > 1
            else studies[0]
        )
        mine = rows.filter(pl.col("study") == chosen)
        last = mine.row(-1, named=True)
        if last["leader"] is not None:
            said = words(
                "leader_since",
                study=chosen,
                cell=_short(last["leader"]),
                since=f"{last['since']:%Y-%m-%d %H:%M}",
                metric=last["metric"],
                value=number(last["value"]),
                near="".join(
                    words(f"n_{how}", n=count(last[how]))
                    for how in ("tied", "within_the_margin")
                    if last[how]
                ),
            )
            st.markdown(label(said, 400))
        known = mine.filter(pl.col("value").is_not_null())
        named = known.select(
            "since", pl.Series("name", map(_short, known["leader"]), pl.String), "value", "low", "high"
        )
        if len(named):
            chart(
                charts.over_time(named, last["metric"] or panels.column("value"), panels.column),
                words("alt_leaders"),
            )
        panels.table("leaders")


def _documents(panels: Panels) -> None:
    rows, words = panels.rows("documents"), panels.words
    if rows.is_empty():
        return
    with panels.section("documents"):
        first = rows.head(_BARS)
        names, titles = [], set[str]()
        for row in first.iter_rows(named=True):
            name = truncate(row["title"] or row["url"] or row["doc_id"], _NAME)
            names.append(
                name if name not in titles else f"{truncate(name, _NAME - 15)} ({row['doc_id'][:10]})"
            )
            titles.add(name)
        bars = first.select(
            pl.Series("name", names), "cited", (pl.col("shown") - pl.col("cited")).alias("not_cited")
        )
        parts = {"cited": charts.BLUE, "not_cited": charts.GREY}
        chart(
            charts.lying_bars(
                panels.named(bars, parts), "name", panels.parts(parts), words("axis_answers"), panels.column
            ),
            words("alt_documents", n=len(first)),
        )
        panels.table("documents")


def _hours(panels: Panels) -> None:
    rows, words = panels.rows("hours"), panels.words
    if rows.is_empty():
        return
    with panels.section("hours"):
        top = rows.sort("questions", descending=True).row(0, named=True)
        weekdays = words("weekdays").split()
        day = weekdays[top["weekday"] - 1]
        busiest = words("hour_range", day=day, hour=top["hour"], until=top["hour"] + 1)
        n = several(words, "n_questions", top["questions"])
        st.markdown(label(words("busiest", hours=busiest, n=n), 200))
        chart(charts.heat(rows, weekdays, panels.column), words("alt_hours", hours=busiest))
        panels.table("hours")


def _people(panels: Panels) -> None:
    if panels.rows("people").is_empty():
        return
    with panels.section("people"):
        panels.table("people", folded=False)


def _short(cell: str) -> str:
    return truncate(_own(cell), _NAME)


def _own(cell: str) -> str:
    return cell.partition(".")[2] or cell
