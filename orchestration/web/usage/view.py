"""Usage in the app: questions, answers and costs, by study, pipeline and day."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import streamlit as st

from rag_assay.orchestration.web.board import looking, or_trouble
from rag_assay.orchestration.web.page_context import PageContext
from rag_assay.orchestration.web.sign_in import page_home
from rag_assay.orchestration.web.usage.labels import ALL_CELLS, RANGES, days_of
from rag_assay.orchestration.web.usage.panels import show_panels
from rag_assay.warehouse.conversation_tables import write_conversations
from rag_assay.warehouse.tables import use_database
from rag_assay.warehouse.usage import FIRST, Usage, UsageChoices, UsageFilter, choices, usage

_OWN_DAYS = "Dates"


def show_usage(context: PageContext) -> None:
    zone = context.options.time_zone
    demo = st.session_state.get("demo", context.get("demo") == "true")
    study = context.study or None
    found = or_trouble(lambda: _choices(UsageFilter(study, demo=demo, time_zone=zone)))
    if found is None:
        return
    wanted = _filters(context, found, zone)
    shown = or_trouble(lambda: _look(wanted, found))
    if shown is not None:
        _say_whose(shown)
        show_panels(shown, context.workspace)


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


def _filters(context: PageContext, found: UsageChoices, zone: str) -> UsageFilter:
    with st.container(key="filters", horizontal=True, vertical_alignment="bottom"):
        cells = [cell for of, cell in found.cells if of == context.study]
        cell = ALL_CELLS
        if len(cells) > 1:
            cell = st.selectbox("Pipeline", [ALL_CELLS, *cells], key="cell", bind="query-params", width=320)
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
    return UsageFilter(context.study or None, cell if cell in cells else None, since, until, demo, zone)


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
            else "`assay usage --demo` writes demo data, to see this page filled."
        )
        st.info(
            f"No questions yet: users ask them on the page Chat. {more}",
            icon=":material/chat_bubble:",
        )
