"""Who gets into a page of Streamlit's own elements: whoever has its password, if it has one.

A browser's tab keeps a ticket in place of the password, so that a reload asks for nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import streamlit as st

from rag_assay.orchestration.authentication import TooManyAttemptsError
from rag_assay.orchestration.settings import Settings
from rag_assay.orchestration.web.access import PasswordGate
from rag_assay.orchestration.web.languages import Language

_IN, _TICKET, _WRONG, _KEEPER = "is_in", "ticket", "wrong_password", "keeper"
_WORDS: dict[Language, tuple[str, str, str, str]] = {
    "en": (
        "Password",
        "Open",
        "That is not the password.",
        "Too many wrong passwords. Try again in {} s.",
    ),
    "de": (
        "Passwort",
        "Öffnen",
        "Das ist nicht das Passwort.",
        "Zu viele falsche Passwörter. In {} s noch einmal versuchen.",
    ),
}


@cache
def gate_of(page: str) -> PasswordGate:
    """Return the gate of a page; all who look at it stand before the same one."""
    return PasswordGate(Settings().password_of(page), page)


def let_in(page: str, language: Language) -> bool:
    """Return whether this session may see a page; show what asks for the password where it may not."""
    gate = gate_of(page)
    if gate.is_open:
        return True
    state = st.session_state
    is_in = bool(state.get(_IN))
    _keeper()(
        key=_KEEPER,
        data={"ticket": state.pop(_TICKET, None), "asks": not is_in},
        on_ticket_change=lambda: _take_ticket(gate),
    )
    if not is_in:
        _ask(gate, language)
    return is_in


def _ask(gate: PasswordGate, language: Language) -> None:
    label, button, wrong, locked = _WORDS[language]
    with st.container(key="gate"), st.form("password_form", clear_on_submit=True, border=True):
        st.text_input(label, type="password", key="typed_password", autocomplete="current-password")
        st.form_submit_button(button, type="primary", on_click=_enter, args=(gate,))
        if (seconds := st.session_state.pop(_WRONG, None)) is not None:
            st.error(locked.format(seconds) if seconds else wrong)


def _enter(gate: PasswordGate) -> None:
    state = st.session_state
    try:
        ticket, wait = gate.enter(state["typed_password"], st.context.ip_address), 0
    except TooManyAttemptsError as error:
        ticket, wait = None, error.seconds
    state[_IN], state[_TICKET], state[_WRONG] = ticket is not None, ticket, None if ticket else wait


def _take_ticket(gate: PasswordGate) -> None:
    state = st.session_state
    ticket = state[_KEEPER].get("ticket")
    state[_IN] = bool(state.get(_IN)) or (isinstance(ticket, str) and gate.knows(ticket))


@cache
def _keeper() -> Callable[..., object]:
    from streamlit.components import v2

    script = Path(__file__).with_name("components") / "keeper.js"
    return v2.component("assay_keeper", js=script.read_text(encoding="utf-8"), isolate_styles=False)
