"""A person's conversations, and who they are."""

from __future__ import annotations

import streamlit as st

from rag_assay.orchestration.web.chat.answer_html import label
from rag_assay.orchestration.web.chat.page_session import CONVERSATION, ChatPageSession, notify
from rag_assay.orchestration.web.page_context import PERSON, person_of, set_address

_SHOWN = 30  # conversations, until more are wanted
_MORE = "shown_conversations"


def show_conversations(session: ChatPageSession) -> None:
    _list(session)
    st.text_input(
        session.words("person"),
        session.place.person,
        key="typed_person",
        help=session.words("person_help"),
        on_change=_take_person,
        args=(session,),
    )


def _list(session: ChatPageSession) -> None:
    words, here = session.words, session.place.conversation
    every = session.listing.of(session.place.person)
    # What could not be asked has left one without a question.
    entries = [one for one in every if one.title or one.conversation == here]
    shown = st.session_state.setdefault(_MORE, _SHOWN)
    if not entries:
        st.html(f'<p class="as-note">{words("no_conversations")}</p>')
    with st.container(key="conversations", gap=None):
        for entry in entries[:shown]:
            is_here = entry.conversation == here
            asked = next((one.question for one in session.pending), "") if is_here else ""
            st.button(
                label(entry.title or asked, 80) or words("untitled"),
                key=f"to-{entry.conversation}",
                type="secondary" if is_here else "tertiary",
                width="stretch",
                on_click=set_address,
                kwargs={"c": entry.conversation},
            )
    if len(entries) > shown:
        more = words("more_conversations", n=len(entries) - shown)
        st.button(
            more,
            key="more",
            type="tertiary",
            on_click=lambda: st.session_state.update({_MORE: shown + _SHOWN}),
        )


def _take_person(session: ChatPageSession) -> None:
    typed = st.session_state["typed_person"]
    name = person_of(typed)
    if typed.strip() and not name:
        notify(session.words("person_bad", why=typed[:80]))
        return
    set_address(**{PERSON: name, CONVERSATION: None})
