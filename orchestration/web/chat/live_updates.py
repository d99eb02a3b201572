"""What changes by itself: answers that are being written, and what other tabs do."""

from __future__ import annotations

import time
from html import escape

import streamlit as st

from rag_assay.orchestration.web.chat.answer_html import label
from rag_assay.orchestration.web.chat.page_session import ChatPageSession
from rag_assay.orchestration.web.chat.state import UnderWay
from rag_assay.orchestration.web.chat.turns import draft_html, show_question

OFTEN, SELDOM = 0.2, 3.0  # seconds between two looks at an answer that is written; at what other tabs do


class ConversationWatcher:
    """The questions of a conversation that have no turn yet.

    Make it where they stand on the page, and `follow` them when all else is there: that ends the run of the
    page where there is anything to be followed.
    """

    def __init__(self, session: ChatPageSession) -> None:
        self._session = session
        self._drafts: list[_Draft] = []
        for one in session.under_way:
            if not one.is_over:
                self._drafts.append(_Draft(session, one))
            elif one.error:
                _could_not_be_asked(session, one)

    def follow(self) -> None:
        """Show what is written as it comes, then the page anew; or look now and then what other tabs do."""
        session = self._session
        if self._drafts or session.catalogue is None:
            pulse = st.empty()
            while not session.is_outdated:
                for draft in self._drafts:
                    draft.show()
                pulse.html("<span></span>")  # where this run ends, if somebody has pressed something
                time.sleep(OFTEN)
            st.rerun()

        @st.fragment(run_every=SELDOM)
        def look() -> None:
            if session.is_outdated:
                st.rerun()

        look()


class _Draft:
    """A question that is being answered, and what is written of its answers."""

    def __init__(self, session: ChatPageSession, one: UnderWay) -> None:
        self._words = session.words
        self._one = one
        show_question(one.question)
        with st.chat_message("assistant"):
            self._stage = st.empty()
            self._texts = [column.empty() for column in st.columns(max(1, one.n_cells))]
            name = "stopping" if one.is_unwanted else "stop"
            st.button(
                self._words(name),
                key=f"stop-{id(one)}",
                icon=":material/stop_circle:",
                disabled=one.is_unwanted,
                on_click=one.stop,
            )

    def show(self) -> None:
        one = self._one
        drafts = list(one.waiting.latest.values()) if one.waiting else []
        stage = "opening_long" if one.waiting is None else "writing" if any(drafts) else "searching"
        said = f"{self._words(stage)} {self._words('seconds', n=int(one.seconds))}"
        self._stage.html(f'<p class="as-note as-busy">{escape(said)}</p>')
        for place, text in zip(self._texts, drafts, strict=False):
            if text:
                place.html(draft_html(text))


def _could_not_be_asked(session: ChatPageSession, one: UnderWay) -> None:
    show_question(one.question)
    with st.chat_message("assistant"):
        st.warning(label(session.words("not_done", why=one.error), 1_000))
        st.button(
            session.words("ask_again"),
            key=f"again-{id(one)}",
            icon=":material/replay:",
            on_click=session.ask,
            args=(one.question,),
        )
