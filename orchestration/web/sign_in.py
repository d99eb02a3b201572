"""The password of the app: asked for once in a browser's tab.

A browser's tab keeps a ticket in place of the password, so that a reload asks for nothing.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable
from functools import cache

import streamlit as st

from rag_assay.orchestration.authentication import SecretVerifier, TooManyAttemptsError, equal, make_room
from rag_assay.orchestration.settings import Settings, secret_of
from rag_assay.orchestration.web.components.component import component, read
from rag_assay.orchestration.web.languages import Language, app_texts, words_in
from rag_assay.warehouse.paths import Home

_log = logging.getLogger("assay.pages")


class PasswordGate:
    """Who may go in. A tab keeps a random ticket in place of the password, good until the server ends."""

    def __init__(self, password: str | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._password = (
            SecretVerifier(password, "password", server="the app", log=_log.warning, clock=clock)
            if password
            else None
        )
        self._tickets: dict[str, None] = {}
        self._lock = threading.Lock()

    @property
    def is_open(self) -> bool:
        return self._password is None

    def enter(self, password: str, address: str | None = None) -> str | None:
        """None: a wrong password. Raises TooManyAttemptsError. address: None: this machine"""
        if self._password is None or not self._password.is_right(password, address):
            return None
        ticket = secrets.token_urlsafe(24)
        with self._lock:
            make_room(self._tickets)
            self._tickets[ticket] = None
        return ticket

    def knows(self, ticket: str) -> bool:
        return any(equal(ticket, one) for one in list(self._tickets))


_IN, _TICKET, _WRONG, _KEEPER = "is_in", "ticket", "wrong_password", "keeper"
TEXTS = app_texts("sign_in")


@cache
def page_home() -> Home:
    return Home(Settings().place())


@cache
def gate_here() -> PasswordGate:
    return PasswordGate(secret_of(Settings().ui_password))


def let_in(language: Language) -> bool:
    gate = gate_here()
    if gate.is_open:
        return True
    state = st.session_state
    is_in = bool(state.get(_IN))
    component("keeper", js=read("keeper.js"), isolate_styles=False)(
        key=_KEEPER,
        data={"ticket": state.pop(_TICKET, None), "asks": not is_in},
        on_ticket_change=lambda: _take_ticket(gate),
    )
    if not is_in:
        _ask(gate, language)
    return is_in


def _ask(gate: PasswordGate, language: Language) -> None:
    words = words_in(TEXTS, language)
    with st.container(key="gate"), st.form("password_form", clear_on_submit=True, border=True):
        st.text_input(
            words("password"), type="password", key="typed_password", autocomplete="current-password"
        )
        st.form_submit_button(words("open"), type="primary", on_click=_enter, args=(gate,))
        if (seconds := st.session_state.pop(_WRONG, None)) is not None:
            st.error(words("locked", seconds=seconds) if seconds else words("wrong"))


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
