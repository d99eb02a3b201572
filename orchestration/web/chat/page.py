"""The page of `assay chat`. Streamlit runs it again for each event; a tab of a browser has a session.

It shows the conversations and takes a question at once; the study and its cells are opened meanwhile.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from html import escape

import streamlit as st

from rag_assay.orchestration.settings import Settings
from rag_assay.orchestration.web.chat.answer_html import label
from rag_assay.orchestration.web.chat.catalogue import Example
from rag_assay.orchestration.web.chat.header import ask_whether_to_delete, show_head
from rag_assay.orchestration.web.chat.listing import Listing
from rag_assay.orchestration.web.chat.live_updates import ConversationWatcher
from rag_assay.orchestration.web.chat.location import place_here
from rag_assay.orchestration.web.chat.page_session import NOTICE, ChatPageSession
from rag_assay.orchestration.web.chat.sidebar import show_sidebar
from rag_assay.orchestration.web.chat.state import ChatState
from rag_assay.orchestration.web.chat.translations import Words, words_of
from rag_assay.orchestration.web.chat.turns import show_question, show_turns
from rag_assay.orchestration.web.components.follow import follow
from rag_assay.orchestration.web.languages import language_here
from rag_assay.orchestration.web.look import dress
from rag_assay.orchestration.web.sign_in import let_in
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.paths import Home

_EXAMPLES = 4


def page() -> None:
    """Show the page to a session."""
    language = language_here()
    words = words_of(language)
    dress(words("title", study=_arguments().study), "furniture", "chat/chat")
    if not let_in("chat", language):
        return
    session = _session(words)
    show_sidebar(session)
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
            _welcome(session, language)
    ask_whether_to_delete(session)
    # What is typed is taken while an answer is written, too: it is answered after that.
    with st.container(key="ask"):
        question = st.chat_input(words("ask"), key="question")
    if question:
        session.ask(question)
        st.rerun()
    follow(_serial(session))
    watch.follow()


@dataclass(frozen=True)
class _Arguments:
    """What the command says.

    study: its name
    path: by which it is found
    cell: key of a cell; None: the recommended one
    model: that answers from its passages at first; None: the cell's own
    usd: what calls of models may cost until the server ends
    """

    study: str
    path: str
    cell: str | None
    usd: float
    model: str | None


@cache
def _arguments() -> _Arguments:
    study, path, cell, usd, model = sys.argv[1:6]
    return _Arguments(study, path, cell or None, float(usd), model or None)


@cache
def _room() -> ChatState:
    said = _arguments()
    home = Home(Settings().place())
    return ChatState(said.path, home, said.usd, said.model, said.cell if said.model else None)


@cache
def _listing() -> Listing:
    return Listing(_room().chats, _arguments().study)


def _session(words: Words) -> ChatPageSession:
    room, place, said = _room(), place_here(), _arguments()
    state = room.state(said.study, place.conversation)
    conversation = None
    if place.conversation:
        try:
            conversation = room.read(said.study, place.conversation)
        except InputError:  # an address that somebody has typed
            conversation = None
    catalogue = room.catalogue()
    is_read = catalogue.done() and catalogue.exception() is None
    found = catalogue.result() if is_read else None
    cell = None if said.model else said.cell  # with a model that is the first one that is offered
    return ChatPageSession(room, _listing(), said.study, cell, place, words, conversation, found, state)


def _notice() -> None:
    found = st.session_state.pop(NOTICE, None)
    if found is not None:
        kind, sentence = found
        (st.warning if kind == "warning" else st.success)(label(sentence, 1_000))


def _troubles(session: ChatPageSession) -> None:
    """Say why a cell cannot be opened, or that it answers whatever it is asked."""
    catalogue, words = session.room.catalogue(), session.words
    if catalogue.done() and (error := catalogue.exception()) is not None:
        st.error(label(words("not_opened", why=error), 1_000))
        return
    choice = session.choice
    if choice is None:
        return
    talk = session.room.talk(choice.key)
    if talk.done() and (error := talk.exception()) is not None:
        st.error(label(words("not_opened", why=error), 1_000))
    elif not choice.declines and _has_begun(session):
        st.html(f'<p class="as-note as-once">{escape(words("cannot_decline"))}</p>')


def _has_begun(session: ChatPageSession) -> bool:
    found = session.conversation
    return found is not None and bool(found.turns or found.unanswered or session.under_way)


def _serial(session: ChatPageSession) -> str:
    """Return what is another one whenever a question was put; empty where nothing was."""
    found = session.conversation
    asked = {turn.number for turn in found.turns} if found else set()
    asked |= {one.number for one in found.unanswered} if found else set()
    return f"{session.place.conversation}/{max(asked)}" if asked else ""


def _left_by_others(session: ChatPageSession) -> None:
    """Show questions that another process is answering."""
    found = session.conversation
    if found is None or session.under_way:
        return
    for number in dict.fromkeys(one.number for one in found.unanswered):
        asked = next(one.asked for one in found.unanswered if one.number == number)
        show_question(asked.question)
        with st.chat_message("assistant"):
            st.html(f'<p class="as-note">{escape(session.words("under_way"))}</p>')


# Nothing was asked yet ------------------------------------------------------------------------------------


def _welcome(session: ChatPageSession, language: str) -> None:
    """Say what can be asked, with questions of the study."""
    words, catalogue = session.words, session.catalogue
    examples = _examples(catalogue.examples, language) if catalogue else []
    corpus = catalogue.study.corpus.name if catalogue else session.study
    text = words("welcome_more" if examples else "welcome_plain", corpus=corpus)
    st.html(f'<div class="as-welcome"><h2>{escape(words("welcome"))}</h2><p>{escape(text)}</p></div>')
    with st.container(key="examples", gap="small"):
        for at, one in enumerate(examples):
            st.button(
                label(one.question, 160),
                key=f"example-{at}",
                width="stretch",
                on_click=session.ask,
                args=(one.question,),
            )


def _examples(found: tuple[Example, ...], language: str) -> list[Example]:
    """Return the first ones, those in the page's language before others."""
    return sorted(found, key=lambda one: one.language != language)[:_EXAMPLES]
