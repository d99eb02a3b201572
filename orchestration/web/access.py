"""The password of the pages: asked for once in a browser's tab, which keeps a ticket in its place."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable

from rag_assay.orchestration.authentication import SecretVerifier, equal, make_room

_log = logging.getLogger("assay.pages")


class PasswordGate:
    """Who may go in: every visitor where there is no password.

    A ticket is a random word that a browser's tab keeps in place of the password; it is good until the server
    ends, also while passwords are locked.

    Safe to use from many threads.
    """

    def __init__(
        self, password: str | None, page: str = "", clock: Callable[[], float] = time.monotonic
    ) -> None:
        server = f"the {page} page"
        self._password = (
            SecretVerifier(password, "password", server=server, log=_log.warning, clock=clock)
            if password
            else None
        )
        self._tickets: dict[str, None] = {}
        self._lock = threading.Lock()

    @property
    def is_open(self) -> bool:
        """Whether no password is needed."""
        return self._password is None

    def enter(self, password: str, address: str | None = None) -> str | None:
        """Return a ticket for the right password; None for another.

        address: the client's IP address; None: this machine

        Raises:
            TooManyAttemptsError: too many wrong ones were given.
        """
        if self._password is None or not self._password.is_right(password, address):
            return None
        ticket = secrets.token_urlsafe(24)
        with self._lock:
            make_room(self._tickets)
            self._tickets[ticket] = None
        return ticket

    def knows(self, ticket: str) -> bool:
        """Return whether a ticket is good."""
        return any(equal(ticket, one) for one in list(self._tickets))
