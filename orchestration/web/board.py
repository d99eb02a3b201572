"""What the pages with figures share: panels, tables with a CSV file, and how they read DuckDB."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TypeVar
from urllib.request import urlopen

import polars as pl
import streamlit as st

from rag_assay.evals.reporting.display import plain
from rag_assay.evals.reporting.exports import csv_text
from rag_assay.orchestration.loopback import is_loopback
from rag_assay.orchestration.web.charts import Chart
from rag_assay.orchestration.web.chat.answer_html import label
from rag_assay.orchestration.web.languages import Words, app_texts, language_here, named, words_in
from rag_assay.warehouse.errors import AssayError

_URL = "http://127.0.0.1:3000"


def dagster_url() -> str:
    # Any server may listen there; and for a reader on another machine it is none.
    if is_loopback(st.context.ip_address or "127.0.0.1"):
        with suppress(OSError, ValueError), urlopen(f"{_URL}/server_info", timeout=0.3) as reply:  # noqa: S310
            if "dagster_webserver_version" in json.load(reply):
                return _URL
    return ""


OUTCOMES = app_texts("outcomes")
T = TypeVar("T")
TEXTS = app_texts("board")
Say = Callable[[str], None]

_CODES = {"why", "declined_by", "used_by", "purpose", "stage"}  # columns
_SOON = 0.5  # seconds until a session that waits for another one says so
_TURN = threading.Lock()
"""Sessions of one process share DuckDB's file: two that write it at once would be in each other's way."""


@contextmanager
def looking() -> Iterator[Say]:
    place, words = st.empty(), _words()

    def say(why: str) -> None:
        place.info(label(words("waits", why=why), 400), icon=":material/hourglass_top:")

    try:
        if not _TURN.acquire(timeout=_SOON):
            say(words("busy"))
            _TURN.acquire()
        try:
            yield say
        finally:
            _TURN.release()
    finally:
        place.empty()


def _words() -> Words:
    return words_in(TEXTS, language_here())


def or_trouble(look: Callable[[], T]) -> T | None:
    try:
        return look()
    except AssayError as error:
        st.error(label(str(error), 1000), icon=":material/error:")
        st.button(_words()("again"), icon=":material/refresh:")
        return None


@contextmanager
def section(key: str, title: str, about: str = "") -> Iterator[None]:
    with st.container(key=f"panel_{key}", border=True):
        st.header(title, anchor=False)
        if about:
            st.caption(label(about, 600))
        yield


def chart(drawn: Chart, sentence: str) -> None:
    st.altair_chart(drawn, width="stretch", alt=sentence)


def table(
    key: str,
    title: str,
    rows: pl.DataFrame,
    column: Callable[[str], str],
    file: Callable[[], pl.DataFrame] | None = None,
    *,
    folded: bool = True,
    note: str = "",
) -> None:
    """Show rows as a table, and offer them as a CSV file.

    key, title: of the table and its file
    column: name of a column -> what the page calls it
    file: returns the rows of the file, where they are more than are shown
    folded: behind a line that opens
    """
    with st.expander(_words()("table", title=title), key=f"fold_{key}") if folded else st.container():
        if note:
            st.caption(label(note, 400))
        shown = pl.DataFrame([_shown(one).alias(column(one.name)) for one in rows])
        st.dataframe(shown, placeholder="–", hide_index=True, key=f"table_{key}", alt=title)
        st.download_button(
            "CSV",
            lambda: csv_text(file() if file else rows).encode("utf-8-sig"),
            f"{key}-{datetime.now(UTC):%Y%m%d}.csv",
            "text/csv",
            key=f"csv_{key}",
            icon=":material/download:",
            on_click="ignore",
        )


def _shown(column: pl.Series) -> pl.Series:
    if column.dtype == pl.String:
        # Of a code, as in `thumbs_down`, the words; texts of users stay as they are.
        is_code, words = column.name in _CODES, words_in(OUTCOMES, language_here())
        texts = [text and plain(named(text, OUTCOMES, words) if is_code else text) for text in column]
        return pl.Series(column.name, texts, pl.String)
    return column.dt.replace_time_zone(None) if isinstance(column.dtype, pl.Datetime) else column
