"""The page of `assay usage`. Streamlit runs it for each choice; it reads the data each time."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import streamlit as st

from rag_assay.orchestration.web.board import looking, masthead, open_page, or_trouble
from rag_assay.orchestration.web.sign_in import page_home
from rag_assay.orchestration.web.usage.labels import ALL_CELLS, ALL_STUDIES, RANGES, days_of
from rag_assay.orchestration.web.usage.panels import show_panels
from rag_assay.warehouse.conversation_tables import write_conversations
from rag_assay.warehouse.tables import use_database
from rag_assay.warehouse.usage import FIRST, Usage, UsageChoices, UsageFilter, choices, usage

NAME = "usage"
_OWN_DAYS = "Dates"


def page() -> None:
    with open_page(NAME, "Usage: questions, answers and costs") as is_in:
        if is_in:
            _page()


def _page() -> None:
    zone = sys.argv[1]
    masthead(
        "Usage: questions, answers and costs",
        f"Days and hours are those of {zone}. As of {datetime.now(ZoneInfo(zone)):%Y-%m-%d %H:%M}.",
    )
    demo = st.session_state.get("demo", st.query_params.get("demo") == "true")
    found = or_trouble(lambda: _choices(UsageFilter(demo=demo, time_zone=zone)))
    if found is None:
        return
    wanted = _filters(found, zone)
    shown = or_trouble(lambda: _look(wanted, found))
    if shown is not None:
        _say_whose(shown)
        show_panels(shown, page_home())


def _choices(wanted: UsageFilter) -> UsageChoices:
    home = page_home()
    with looking("The page goes on by itself.") as say:
        return use_database(
            home,
            lambda connection: (write_conversations(connection, home), choices(connection, wanted))[1],
            say,
        )


def _look(wanted: UsageFilter, known: UsageChoices) -> Usage:
    with looking("The page goes on by itself.") as say:
        return use_database(page_home(), lambda connection: usage(connection, wanted, known=known), say)


def _filters(found: UsageChoices, zone: str) -> UsageFilter:
    with st.container(key="filters", horizontal=True, vertical_alignment="bottom"):
        studies = [ALL_STUDIES, *found.studies]
        study = st.selectbox("Study", studies, key="study", bind="query-params", width=220)
        study = study if study in found.studies else None
        cells = [cell for of, cell in found.cells if study in {None, of}]
        cell = st.selectbox("Cell", [ALL_CELLS, *cells], key="cell", bind="query-params", width=320)
        days = st.segmented_control(
            "Days",
            [*RANGES, _OWN_DAYS],
            default="30 days",
            required=True,
            key="days",
            bind="query-params",
        )
        today = datetime.now(UTC).astimezone(ZoneInfo(zone)).date()
        if days == _OWN_DAYS:
            chosen = st.date_input(
                "From and to", (found.first or today, today), format="YYYY-MM-DD", width=230
            )
            since, until = (chosen[0], chosen[-1]) if isinstance(chosen, tuple) and chosen else (today, today)
        else:
            since, until = days_of(days or "All", today, FIRST)
        demo = st.toggle(
            "Demo data",
            key="demo",
            bind="query-params",
            help="Generated to show the page; never counted with real questions.",
        )
    return UsageFilter(study, cell if cell in cells else None, since, until, demo, zone)


def _say_whose(shown: Usage) -> None:
    known = shown.choices
    if shown.wanted.demo:
        st.warning(
            "Demo data, not real usage. Questions, answers and seconds are the study's, as "
            "measured; people, days and feedback are made up. `assay usage --forget-demo` removes it.",
            icon=":material/science:",
        )
    elif not known.questions:
        more = (
            "There is demo data: switch it on above."
            if known.demo_questions
            else "To see this page filled, start it with `--demo`."
        )
        st.info(
            f"No questions yet: `assay chat STUDY` serves the page where users ask them. {more}",
            icon=":material/chat_bubble:",
        )
