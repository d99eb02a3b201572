"""The page of `assay leaderboard`. Streamlit runs it for each choice; it reads the data each time."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache

import streamlit as st

from rag_assay.evals.reporting.live_boards import Boards, RunNow, StudyNow, run_now
from rag_assay.orchestration.web.board import (
    figure_columns,
    looking,
    masthead,
    open_page,
    or_trouble,
    section,
    table,
)
from rag_assay.orchestration.web.chat.answer_html import label
from rag_assay.orchestration.web.leaderboard.cells import show_beside, show_cells
from rag_assay.orchestration.web.leaderboard.rows import is_unfinished, overview, progress_words
from rag_assay.orchestration.web.sign_in import page_home

NAME = "leaderboard"
_AGAIN = "15s"  # until a page looks again by itself while a run is under way
_SHOWN = 8  # studies whose progress is drawn


def page() -> None:
    with open_page(NAME, "Leaderboards") as is_in:
        if is_in:
            _page()


def _page() -> None:
    masthead("Leaderboards", f"As of {datetime.now(UTC):%Y-%m-%d %H:%M} UTC; read from DuckDB at each look.")
    found = or_trouble(_studies)
    if found is None:
        return
    _under_way(found)
    if not found:
        st.info("No study is known in this home: `assay try FOLDER` makes one.", icon=":material/info:")
        return
    with section(
        "studies", "Studies", "Which cell leads each study, how sure that is, and how far the study is."
    ):
        ran = [one for one in found if one.run_at is not None]
        if ran:
            table("studies", "Studies", overview(ran), folded=False, columns=figure_columns())
        if len(ran) < len(found):
            others = [one for one in found if one.run_at is None]
            st.caption(
                label(f"Known, and not run in this home: {', '.join(one.name for one in others)}.", 600)
            )
    shown = [one for one in found if one.board is not None]
    if shown:
        names = [one.name for one in shown]
        name = st.selectbox("Study", names, key="study", bind="query-params", width=320)
        chosen = next((one for one in shown if one.name == name), shown[0])
        show_cells(chosen)
        show_beside([chosen, *(one for one in shown if one is not chosen)])


def _studies() -> list[StudyNow]:
    with looking("The page goes on by itself."):
        return _boards().studies(sys.argv[1:])


def _under_way(found: Sequence[StudyNow]) -> None:
    if run_now(page_home()) is not None:
        st.fragment(_progress, run_every=_AGAIN)()
    elif unfinished := [one.name for one in found if is_unfinished(one.progress) and one.run_at]:
        names = ", ".join(unfinished[:_SHOWN])
        words = f"Nothing runs now. Answers are missing of {names}; a run goes on from there."
        st.info(label(words, 400), icon=":material/pause_circle:")


def _progress() -> None:
    now = run_now(page_home())
    if now is None:
        st.rerun()
        return
    st.info(label(_words(now), 400), icon=":material/progress_activity:")
    for one in [one for one in _boards().progress(sys.argv[1:]) if is_unfinished(one[1])][:_SHOWN]:
        study, progress = one
        words = label(f"{study}: {progress_words(progress)} answers", 200)
        st.progress(progress.done / max(1, progress.wanted or 1), words)


def _words(now: RunNow) -> str:
    what = f" ({now.command})" if now.command else ""
    ended = "Leaderboards are those of the last run that has ended."
    return f"A run is under way: process {now.process}{what}. {ended}"


@cache
def _boards() -> Boards:
    return Boards(page_home())
