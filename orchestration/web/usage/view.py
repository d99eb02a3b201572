"""Usage in the app: questions, answers and costs, by study, pipeline and day."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import streamlit as st

from rag_assay.orchestration.web.address_state import choose_one, switch
from rag_assay.orchestration.web.board import looking, or_trouble
from rag_assay.orchestration.web.languages import Words
from rag_assay.orchestration.web.page_context import PageContext
from rag_assay.orchestration.web.sign_in import page_home
from rag_assay.orchestration.web.usage.labels import RANGES, TEXTS, days_of
from rag_assay.orchestration.web.usage.panels import show_panels
from rag_assay.warehouse.conversation_tables import write_conversations
from rag_assay.warehouse.tables import use_database
from rag_assay.warehouse.usage import FIRST, Usage, UsageChoices, UsageFilter, choices, usage

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
        show_panels(shown, context.workspace, words)


def _choices(wanted: UsageFilter) -> UsageChoices:
    home = page_home()
    with looking() as say:
        return use_database(
            home,
            lambda connection: (write_conversations(connection, home), choices(connection, wanted))[1],
            say,
        )


def _look(wanted: UsageFilter, known: UsageChoices) -> Usage:
    with looking() as say:
        return use_database(page_home(), lambda connection: usage(connection, wanted, known=known), say)


def _filters(context: PageContext, found: UsageChoices, zone: str) -> UsageFilter:
    words = context.words(TEXTS)
    with st.container(key="filters", horizontal=True, vertical_alignment="bottom"):
        cells = [cell for of, cell in found.cells if of == context.study]
        cell = ""
        if len(cells) > 1:
            names = {"": words("all_cells")}
            cell = choose_one(
                context, "cell", words("pipeline"), ["", *cells], lambda one: names.get(one, one), 320
            )
        days = switch(
            context, "days", words("days"), [*RANGES, _OWN_DAYS], lambda one: words(f"days_{one}"), "30 days"
        )
        today = datetime.now(UTC).astimezone(ZoneInfo(zone)).date()
        if days == _OWN_DAYS:
            chosen = st.date_input(
                words("from_to"), (found.first or today, today), format="YYYY-MM-DD", width=230
            )
            since, until = (chosen[0], chosen[-1]) if isinstance(chosen, tuple) and chosen else (today, today)
        else:
            since, until = days_of(days, today, FIRST)
        demo = st.toggle(
            words("demo"),
            key="demo",
            bind="query-params",
            help=words("demo_help"),
        )
    return UsageFilter(context.study or None, cell if cell in cells else None, since, until, demo, zone)


def _say_whose(shown: Usage, words: Words) -> None:
    known = shown.choices
    if shown.wanted.demo:
        st.warning(words("is_demo"), icon=":material/science:")
    elif not known.questions:
        more = words("demo_there" if known.demo_questions else "demo_make")
        st.info(words("no_questions", more=more), icon=":material/chat_bubble:")
