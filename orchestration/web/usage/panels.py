"""Usage in the app: questions, answers and costs by study, pipeline and day, in panels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import polars as pl
import streamlit as st

from rag_assay.evals.reporting.display import MISSING, count, number, percent, truncate
from rag_assay.orchestration.web import charts
from rag_assay.orchestration.web.address_state import choose_one, switch
from rag_assay.orchestration.web.board import OUTCOMES, chart, looking, or_trouble, section, table
from rag_assay.orchestration.web.chat.answer_html import label
from rag_assay.orchestration.web.languages import Words, app_texts, language_here, named, several, words_in
from rag_assay.orchestration.web.page_context import PageContext
from rag_assay.orchestration.web.sign_in import page_home
from rag_assay.warehouse.conversation_tables import write_conversations
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.tables import use_database
from rag_assay.warehouse.usage import (
    FIRST,
    MOST,
    PANELS,
    Usage,
    UsageChoices,
    UsageFilter,
    choices,
    panel,
    usage,
)

Row = Mapping[str, Any]
TEXTS = app_texts("usage")
ENGLISH = words_in(TEXTS, "en")
RANGES: Mapping[str, int | None] = {"7 days": 7, "30 days": 30, "90 days": 90, "All": None}
"""What the address calls a range of days -> how many, today included; None: all."""


def days_of(name: str, today: date, first: date) -> tuple[date, date]:
    """Return the first and the last day of a range.

    >>> days_of("7 days", date(2026, 3, 10), date(2020, 1, 1))
    (datetime.date(2026, 3, 4), datetime.date(2026, 3, 10))
    """
    n = RANGES[name]
    return (first if n is None else today - timedelta(days=n - 1), today)


def money(words: Words, usd: float | None, unpriced: int, calls: int) -> str:
    """Say what was paid; what is not known is said, and never 0.

    >>> money(ENGLISH, 1.5, 0, 9), money(ENGLISH, 0.0, 0, 9), money(ENGLISH, None, 9, 9)
    ('US$ 1.50', 'US$ 0', 'not known')
    >>> money(ENGLISH, 0.25, 2, 9), money(ENGLISH, None, 0, 0)
    ('US$ 0.25 and 2 calls of unknown price', '–')
    """
    if not calls:
        return MISSING
    if usd is None:
        return words("not_known")
    written = "0" if usd == 0 else f"{usd:,.2f}" if usd >= 1 else f"{usd:.2g}"
    return f"US$ {written}" + (several(words, "unpriced", unpriced) if unpriced else "")


def share_words(words: Words, row: Row) -> str:
    """Say a share of thumbs up with its interval.

    >>> share_words(ENGLISH, {"up": 3, "down": 1, "share": 0.75, "low": 0.3, "high": 0.95})
    '75 % (30 % to 95 %) of 4 thumbs'
    """
    if row["share"] is None:
        return words("no_thumb")
    return several(words, "share", row["up"] + row["down"], **_interval(row))


def _interval(row: Row) -> dict[str, str]:
    return {name: percent(row[name]) for name in ("share", "low", "high")}


def votes_words(words: Words, row: Row) -> str:
    """Say how votes between two cells went.

    >>> votes_words(ENGLISH, {"cell": "s.a", "rival": "s.b", "won": 3, "lost": 1, "ties": 1, "share": 0.75,
    ...     "low": 0.3, "high": 0.95})
    's.a and s.b, 5 votes: 3 for the first, 1 for the second, 1 ties; 75 % (30 % to 95 %).'
    """
    counts = {name: count(row[name]) for name in ("won", "lost", "ties")}
    n = row["won"] + row["lost"] + row["ties"]
    share = words("votes_share", **_interval(row)) if row["share"] is not None else ""
    return several(words, "votes", n, cell=row["cell"], rival=row["rival"], share=share, **counts)


def totals_words(words: Words, row: Row) -> str:
    """Say in a sentence what was asked.

    >>> totals_words(ENGLISH, {"questions": 2, "answers": 3, "answered": 2, "declined": 1, "failed": 0,
    ...     "people": 1, "conversations": 2, "nameless": 1})
    '2 questions in 2 conversations: 2 answers, 1 declined, 0 failed. 1 person; 1 nameless conversation.'
    """
    return words(
        "totals",
        questions=several(words, "n_questions", row["questions"]),
        conversations=several(words, "n_conversations", row["conversations"]),
        answered=several(words, "n_answers", row["answered"]),
        declined=count(row["declined"]),
        failed=count(row["failed"]),
        people=several(words, "n_people", row["people"]),
        nameless=several(words, "n_nameless", row["nameless"]) if row["nameless"] else "",
    )


def latency_words(words: Words, rows: pl.DataFrame) -> str:
    """Say how fast each stage was.

    >>> latency_words(ENGLISH, pl.DataFrame({"stage": ["whole"], "n": [9], "p50": [0.5], "p95": [2.0]}))
    'whole: 0.500 s, p95 2.000 s (9).'
    """
    said = [
        words(
            "stage_seconds",
            stage=words(f"stage_{one['stage']}"),
            p50=number(one["p50"], "s"),
            p95=number(one["p95"], "s"),
            n=count(one["n"]),
        )
        for one in rows.iter_rows(named=True)
    ]
    return f"{'; '.join(said)}." if said else words("no_seconds")


def paid(words: Words, rows: pl.DataFrame, used_by: str) -> str:
    """Say what conversations, or runs, have paid.

    >>> rows = pl.DataFrame(
    ...     {"used_by": ["chat", "chat"], "usd": [0.5, None], "unpriced": [0, 2], "calls": [4, 2]}
    ... )
    >>> paid(ENGLISH, rows, "chat"), paid(ENGLISH, rows, "study")
    ('US$ 0.5 and 2 calls of unknown price', '–')
    """
    mine = rows.filter(used_by=used_by)
    usd = float(mine["usd"].sum()) if mine["usd"].count() else None
    return money(words, usd, int(mine["unpriced"].sum()), int(mine["calls"].sum()))


COLOURS = {"answered": charts.BLUE, "declined": charts.AMBER, "failed": charts.RED}
_BARS = 12  # documents, and cells, that a chart shows
_NAME = 60  # characters of a name beside a bar

_OWN_DAYS = "Dates"  # in the address


def show_usage(context: PageContext) -> None:
    zone = context.options.time_zone
    demo = st.session_state.get("demo", context.get("demo") == "true")
    study = context.study or None
    found = or_trouble(lambda: _choices(UsageFilter(study, demo=demo, time_zone=zone)))
    if found is None:
        return
    wanted = _filters(context, found, zone)
    words = context.words(TEXTS)
    shown = or_trouble(lambda: _look(wanted, found))
    if shown is not None:
        _say_whose(shown, words)
        _show_panels(shown, context.workspace, words)


def _choices(wanted: UsageFilter) -> UsageChoices:
    def read(connection: duckdb.DuckDBPyConnection) -> UsageChoices:
        write_conversations(connection, page_home())
        return choices(connection, wanted)

    with looking() as say:
        return use_database(page_home(), read, say)


def _look(wanted: UsageFilter, known: UsageChoices) -> Usage:
    with looking() as say:
        return use_database(page_home(), lambda connection: usage(connection, wanted, known=known), say)


def _filters(context: PageContext, found: UsageChoices, zone: str) -> UsageFilter:
    words = context.words(TEXTS)
    with st.container(key="filters", horizontal=True, vertical_alignment="bottom"):
        cells = [cell for of, cell in found.cells if of == context.study]
        cell = ""
        if len(cells) > 1:
            title = {"": words("all_cells"), **{one: one for one in cells}}
            cell = choose_one(context, "cell", words("pipeline"), [*title], title.__getitem__, 320)
        ranges = {one: words(f"days_{one}") for one in (*RANGES, _OWN_DAYS)}
        days = switch(context, "days", words("days"), [*ranges], ranges.__getitem__, "30 days")
        today = datetime.now(UTC).astimezone(ZoneInfo(zone)).date()
        if days == _OWN_DAYS:
            chosen = st.date_input(
                words("from_to"), (found.first or today, today), format="YYYY-MM-DD", width=230
            )
            since, until = (chosen[0], chosen[-1]) if isinstance(chosen, tuple) and chosen else (today, today)
        else:
            since, until = days_of(days, today, FIRST)
        demo = st.toggle(words("demo"), key="demo", bind="query-params", help=words("demo_help"))
    return UsageFilter(context.study or None, cell if cell in cells else None, since, until, demo, zone)


def _say_whose(shown: Usage, words: Words) -> None:
    known = shown.choices
    if shown.wanted.demo:
        st.warning(words("is_demo"), icon=":material/science:")
    elif not known.questions:
        more = words("demo_there" if known.demo_questions else "demo_make")
        st.info(words("no_questions", more=more), icon=":material/chat_bubble:")


@dataclass(frozen=True)
class Panels:
    """The panels of one look, shown one after the other."""

    shown: Usage
    home: Home
    words: Words

    def rows(self, name: str) -> pl.DataFrame:
        return self.shown.panels[name]

    def has(self, name: str) -> bool:
        if name == "feedback":  # which has always a row for all cells
            return self.rows("feedback")["share"][0] is not None or len(self.rows("sentences")) > 0
        return len(self.rows("latency_days" if name == "latency" else name)) > 0

    def say(self, text: str) -> None:
        st.markdown(label(text, 400))

    def draw(self, drawn: charts.Chart, name: str, **values: object) -> None:
        chart(drawn, self.words(f"alt_{name}", **values))

    def draw_intervals(self, name: str, names: list[str], rows: pl.DataFrame, what: str) -> None:
        named = rows.select(pl.Series("name", names, pl.String), value="share", low="low", high="high")
        if len(named):
            self.draw(charts.intervals(named, self.words(what), self.column, (0, 1)), name)

    def draw_bars(self, name: str, bars: pl.DataFrame, colours: Mapping[str, str], what: str) -> None:
        shown, parts = self.named(bars, colours), self.parts(colours)
        drawn = charts.lying_bars(shown, parts, self.words(what), self.column)
        self.draw(drawn, name, n=len(bars))

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
        return {self.column(name): colour for name, colour in colours.items()}

    def named(self, rows: pl.DataFrame, colours: Mapping[str, str]) -> pl.DataFrame:
        return rows.rename({name: self.column(name) for name in colours})

    def choose(self, name: str, options: list[str]) -> str:
        if len(options) == 1:
            return options[0]
        return str(st.selectbox(self.words(name), options, key=name))

    def _all(self, name: str) -> pl.DataFrame:
        with looking() as say:
            return use_database(self.home, lambda one: panel(one, name, self.shown.wanted), say)


def _show_panels(shown: Usage, home: Home, words: Words) -> None:
    panels = Panels(shown, home, words)
    _in_all(panels)
    for name, show in _SHOWN.items():
        if panels.has(name):
            title = "latency" if name == "latency" else f"title_{name}"  # by stage, and by day
            with section(name, words(title), words(f"about_{name}")):
                show(panels, panels.rows(name), words)


def _in_all(panels: Panels) -> None:
    total = panels.rows("totals").row(0, named=True)
    thumbs = panels.rows("feedback").row(0, named=True)
    stages = {row["stage"]: row for row in panels.rows("latency").iter_rows(named=True)}
    whole, models, words = stages.get("whole"), panels.rows("models"), panels.words
    n = total["answers"]
    figures = {
        "questions": count(total["questions"]),
        "answered": percent(total["answered"] / n) if n else MISSING,
        "thumbs_up": percent(thumbs["share"]),
        "wait": f"{number(whole['p50'], 's')} / {number(whole['p95'], 's')} s" if whole else MISSING,
        "paid_chat": paid(words, models, "chat"),
    }
    if not panels.shown.wanted.demo:
        figures["paid_study"] = paid(words, models, "study")
    with st.container(key="figures", horizontal=True):
        for name, figure in figures.items():
            st.metric(words(name), figure, border=True)
    st.caption(label(totals_words(words, total), 400))


def _questions(panels: Panels, rows: pl.DataFrame, words: Words) -> None:
    most = rows.sort("questions", descending=True).row(0, named=True)
    shown, parts = panels.named(rows, COLOURS), panels.parts(COLOURS)
    drawn = charts.days_stacked(shown, parts, words("axis_answers"), panels.column)
    panels.draw(drawn, "questions", n=most["questions"], day=most["day"])
    panels.table("questions")


def _unanswered(panels: Panels, rows: pl.DataFrame, _words: Words) -> None:
    outcomes = words_in(OUTCOMES, language_here())
    counts = sorted(rows["why"].value_counts().iter_rows())
    panels.say(f"{', '.join(f'{n} × {named(why, OUTCOMES, outcomes)}' for why, n in counts)}.")
    panels.table("unanswered", folded=False)


def _feedback(panels: Panels, rows: pl.DataFrame, words: Words) -> None:
    whole, cells = rows.row(0, named=True), rows.slice(1).filter(pl.col("share").is_not_null())
    panels.say(f"{words('thumbs_up')}: {share_words(words, whole)}.")
    if len(cells):
        best = cells.sort("up", descending=True).head(_BARS)
        panels.draw_intervals("feedback", list(map(_short, best["cell"])), best, "axis_thumbs")
        panels.table("feedback")
    if len(panels.rows("sentences")):
        st.subheader(words("title_sentences"), anchor=False)
        panels.table("sentences", folded=False)


def _votes(panels: Panels, rows: pl.DataFrame, words: Words) -> None:
    panels.say(votes_words(words, rows.row(0, named=True)))
    shown = rows.filter(pl.col("share").is_not_null()).head(_BARS)
    pairs = [
        truncate(words("rather", cell=_own(cell), rival=_own(rival)), 2 * _NAME)
        for cell, rival in shown.select("cell", "rival").rows()
    ]
    panels.draw_intervals("votes", pairs, shown, "axis_votes")
    panels.table("votes")


def _latency(panels: Panels, rows: pl.DataFrame, words: Words) -> None:
    panels.say(latency_words(words, rows))
    colours = {"p50": charts.BLUE, "p95": charts.AMBER}
    days = panels.rows("latency_days")
    panels.draw(charts.days_lines(days, colours, words("axis_seconds"), panels.column), "latency")
    panels.table("latency")
    panels.table("latency_days")


def _models(panels: Panels, rows: pl.DataFrame, words: Words) -> None:
    panels.say(words("money_spent", **{who: paid(words, rows, who) for who in ("chat", "study")}))
    names = [" · ".join(filter(None, row)) for row in rows.select("used_by", "purpose", "model").rows()]
    named = rows.with_columns(pl.Series("name", [truncate(text, _NAME) for text in names], pl.String))
    parts = {"prompt_tokens": charts.BLUE, "completion_tokens": charts.GREEN}
    panels.draw_bars("models", named, parts, "axis_tokens")
    told_paid = [money(words, *row) for row in rows.select("usd", "unpriced", "calls").rows()]
    told = rows.with_columns(pl.Series("paid", told_paid, pl.String)).drop("usd")
    table("models", words("title_models"), told, panels.column, lambda: rows)


def _scores(panels: Panels, rows: pl.DataFrame, words: Words) -> None:
    asked = rows.group_by("cell").agg(pl.col("n").sum()).sort("n", "cell", descending=[True, False])
    chosen = panels.choose("score_cell", asked["cell"].to_list())
    mine = rows.filter(pl.col("cell") == chosen)
    colours = {"top_score": charts.BLUE, "confidence": charts.AMBER}
    shown, parts = panels.named(mine, colours), panels.parts(colours)
    drawn = charts.days_lines(shown, parts, words("axis_median"), panels.column, from_zero=False)
    panels.draw(drawn, "scores")
    panels.table("scores")


def _leaders(panels: Panels, rows: pl.DataFrame, words: Words) -> None:
    chosen = panels.choose("leader_study", rows["study"].unique().sort().to_list())
    mine = rows.filter(pl.col("study") == chosen)
    last = mine.row(-1, named=True)
    if last["leader"] is not None:
        beside = [how for how in ("tied", "within_the_margin") if last[how]]
        said = words(
            "leader_since",
            study=chosen,
            cell=_short(last["leader"]),
            since=f"{last['since']:%Y-%m-%d %H:%M}",
            metric=last["metric"],
            value=number(last["value"]),
            near="".join(words(f"n_{how}", n=count(last[how])) for how in beside),
        )
        panels.say(said)
    known = mine.filter(pl.col("value").is_not_null())
    if len(known):
        names = pl.Series("name", map(_short, known["leader"]), pl.String)
        named = known.select("since", names, "value", "low", "high")
        what = last["metric"] or panels.column("value")
        panels.draw(charts.over_time(named, what, panels.column), "leaders")
    panels.table("leaders")


def _documents(panels: Panels, rows: pl.DataFrame, _words: Words) -> None:
    first = rows.head(_BARS)
    names, titles = [], set[str]()
    for row in first.iter_rows(named=True):
        name = truncate(row["title"] or row["url"] or row["doc_id"], _NAME)
        names.append(name if name not in titles else f"{truncate(name, _NAME - 15)} ({row['doc_id'][:10]})")
        titles.add(name)
    others = (pl.col("shown") - pl.col("cited")).alias("not_cited")
    parts = {"cited": charts.BLUE, "not_cited": charts.GREY}
    panels.draw_bars(
        "documents", first.select(pl.Series("name", names), "cited", others), parts, "axis_answers"
    )
    panels.table("documents")


def _hours(panels: Panels, rows: pl.DataFrame, words: Words) -> None:
    top = rows.sort("questions", descending=True).row(0, named=True)
    weekdays = words("weekdays").split()
    day = weekdays[top["weekday"] - 1]
    busiest = words("hour_range", day=day, hour=top["hour"], until=top["hour"] + 1)
    panels.say(words("busiest", hours=busiest, n=several(words, "n_questions", top["questions"])))
    panels.draw(charts.heat(rows, weekdays, panels.column), "hours", hours=busiest)
    panels.table("hours")


_SHOWN: Mapping[str, Callable[[Panels, pl.DataFrame, Words], None]] = {
    "questions": _questions,
    "unanswered": _unanswered,
    "feedback": _feedback,
    "votes": _votes,
    "latency": _latency,
    "models": _models,
    "scores": _scores,
    "leaders": _leaders,
    "documents": _documents,
    "hours": _hours,
    "people": lambda panels, _rows, _words: panels.table("people", folded=False),
}


def _short(cell: str) -> str:
    return truncate(_own(cell), _NAME)


def _own(cell: str) -> str:
    return cell.partition(".")[2] or cell
