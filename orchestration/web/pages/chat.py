"""The page Chat: people talk to the documents of a study, by the pipelines that were measured.

It shows the conversations and takes a question at once; the study and its cells are opened meanwhile.
"""

from __future__ import annotations

import time
from functools import cache
from html import escape

import streamlit as st

from rag_assay.orchestration.question_service.question_service import PendingQuestion
from rag_assay.orchestration.web.address_state import action_button
from rag_assay.orchestration.web.chat.answer_html import label
from rag_assay.orchestration.web.chat.header import ask_whether_to_delete, show_head
from rag_assay.orchestration.web.chat.page_session import (
    NOTICE,
    ChatPageSession,
    ChatState,
    Listing,
    place_here,
)
from rag_assay.orchestration.web.chat.turns import draft_html, show_question, show_turns
from rag_assay.orchestration.web.components.component import follow
from rag_assay.orchestration.web.languages import Words, app_texts
from rag_assay.orchestration.web.page_context import PageContext, UiOptions
from rag_assay.orchestration.web.sign_in import page_home
from rag_assay.warehouse.errors import InputError

SHEETS = ("chat/chat",)
TEXTS = app_texts("chat")
OFTEN, SELDOM = 0.2, 3.0  # seconds between two looks at an answer that is written; at what other tabs do


class ConversationWatcher:
    """The questions of a conversation that have no turn yet.

    Make it where they stand on the page, and `follow` them when all else is there: that ends the run of the
    page where there is anything to be followed.
    """

    def __init__(self, session: ChatPageSession) -> None:
        self._session = session
        self._drafts: list[_Draft] = []
        for one in session.pending:
            if not one.is_over:
                self._drafts.append(_Draft(session, one))
            elif one.error:
                _could_not_be_asked(session, one)

    def follow(self) -> None:
        """Show what is written as it comes, then the page again; or look now and then what other tabs do."""
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

    def __init__(self, session: ChatPageSession, one: PendingQuestion) -> None:
        self._words = session.words
        self._one = one
        show_question(one.question)
        with st.chat_message("assistant"):
            self._stage = st.empty()
            self._texts = [column.empty() for column in st.columns(max(1, len(one.sides)))]
            is_stopped = one.stopped.is_set()
            look = {"icon": ":material/stop_circle:", "disabled": is_stopped}
            name = self._words("stopping" if is_stopped else "stop")
            action_button(name, f"stop-{id(one)}", one.stop, **look)

    def show(self) -> None:
        one = self._one
        drafts = [side.draft for side in one.sides]
        stage = "opening_long" if not one.sides else "writing" if any(drafts) else "searching"
        said = f"{self._words(stage)} {self._words('seconds', n=int(one.seconds))}"
        self._stage.html(f'<p class="as-note as-busy">{escape(said)}</p>')
        for place, text in zip(self._texts, drafts, strict=False):
            if text:
                place.html(draft_html(text))


def _could_not_be_asked(session: ChatPageSession, one: PendingQuestion) -> None:
    show_question(one.question)
    with st.chat_message("assistant"):
        st.warning(label(session.words("not_done", why=one.error), 1_000))
        again = session.words("ask_again")
        action_button(again, f"again-{id(one)}", session.ask, one.question, icon=":material/replay:")


_EXAMPLES = 4


def render(context: PageContext) -> None:
    words = context.words(TEXTS)
    session = _session(context, words)
    with st.container(key="main"):
        show_head(session)
        # In a place of its own: what comes and goes here moves no turn, of which parts would stay behind.
        with st.container(key="told"):
            _notice()
            _troubles(session)
            if session.conversation is None and session.place.conversation:
                st.info(words("gone"))
        show_turns(session)
        _left_by_others(session)
        watch = ConversationWatcher(session)
        if not _has_begun(session):
            _welcome(session, context.language)
    ask_whether_to_delete(session)
    # What is typed is taken while an answer is written, too: it is answered after that.
    with st.container(key="ask"):
        question = st.chat_input(words("ask"), key="question")
    if question:
        session.ask(question)
        st.rerun()
    follow(_serial(session))
    watch.follow()


@cache
def _room(reference: str, options: UiOptions) -> ChatState:
    passages_of = options.cell if options.model else None
    return ChatState(reference, page_home(), options.usd, options.model or None, passages_of)


@cache
def _listing(room: ChatState, study: str) -> Listing:
    return Listing(room.service.chats, study)


def _session(context: PageContext, words: Words) -> ChatPageSession:
    study = context.study
    # Cell and model of the command are those of its study.
    options = context.options if study == context.options.study else UiOptions(usd=context.options.usd)
    room, place = _room(context.reference, options), place_here()
    state = room.state(study, place.conversation)
    conversation = None
    if place.conversation:
        try:
            conversation = room.service.conversation(study, place.conversation)
        except InputError:  # an address that somebody has typed
            conversation = None
    catalogue = room.catalogue()
    is_read = catalogue.done() and catalogue.exception() is None
    found = catalogue.result() if is_read else None
    cell = None if options.model else options.cell or None  # with a model: the first one that is offered
    return ChatPageSession(
        context, room, _listing(room, study), study, cell, place, words, conversation, found, state
    )


def _notice() -> None:
    found = st.session_state.pop(NOTICE, None)
    if found is not None:
        kind, sentence = found
        (st.warning if kind == "warning" else st.success)(label(sentence, 1_000))


def _troubles(session: ChatPageSession) -> None:
    catalogue, words = session.room.catalogue(), session.words
    if catalogue.done() and (error := catalogue.exception()) is not None:
        st.error(label(words("not_opened", why=error), 1_000))
        return
    choice = session.choice
    if choice is None:
        return
    opened = session.room.cell(choice.key)
    if opened.done() and (error := opened.exception()) is not None:
        st.error(label(words("not_opened", why=error), 1_000))
    elif not choice.declines and _has_begun(session):
        st.html(f'<p class="as-note as-once">{escape(words("cannot_decline"))}</p>')


def _has_begun(session: ChatPageSession) -> bool:
    found = session.conversation
    return found is not None and bool(found.turns or found.unanswered or session.pending)


def _serial(session: ChatPageSession) -> str:
    """Return what is another one whenever a question was put; empty where nothing was."""
    found = session.conversation
    asked = {turn.number for turn in found.turns} if found else set()
    asked |= {one.number for one in found.unanswered} if found else set()
    return f"{session.place.conversation}/{max(asked)}" if asked else ""


def _left_by_others(session: ChatPageSession) -> None:
    found = session.conversation
    if found is None or session.pending:
        return
    for number in dict.fromkeys(one.number for one in found.unanswered):
        asked = next(one.asked for one in found.unanswered if one.number == number)
        show_question(asked.question)
        with st.chat_message("assistant"):
            st.html(f'<p class="as-note">{escape(session.words("under_way"))}</p>')


# Nothing was asked yet ------------------------------------------------------------------------------------


def _welcome(session: ChatPageSession, language: str) -> None:
    words, catalogue = session.words, session.catalogue
    found = catalogue.examples if catalogue else ()
    examples = sorted(found, key=lambda one: one.language != language)[:_EXAMPLES]
    corpus = catalogue.study.corpus.name if catalogue else session.study
    text = words("welcome_more" if examples else "welcome_plain", corpus=corpus)
    st.html(f'<div class="as-welcome"><h2>{escape(words("welcome"))}</h2><p>{escape(text)}</p></div>')
    with st.container(key="examples", gap="small"):
        for at, one in enumerate(examples):
            shown = label(one.question, 160)
            action_button(shown, f"example-{at}", session.ask, one.question, width="stretch")
