"""The password of the pages: compared in constant time, and asked for once in a browser's tab."""

from __future__ import annotations

import hmac
import secrets
import time

_WAIT = 0.5  # seconds that a wrong password costs
_MOST = 10_000  # tickets that are remembered


class Gate:
    """Who may go in: everybody where there is no password.

    A ticket is a random word that a browser's tab keeps in place of the password; it is good until the server
    ends.
    """

    def __init__(self, password: str | None) -> None:
        self._password = password or None
        self._tickets: dict[str, None] = {}

    @property
    def is_open(self) -> bool:
        """Whether nobody is asked."""
        return self._password is None

    def enter(self, password: str) -> str | None:
        """Return a ticket for the right password; None, after a while, for another."""
        if self._password is None or not _equal(password, self._password):
            time.sleep(_WAIT)
            return None
        while len(self._tickets) >= _MOST:
            del self._tickets[next(iter(self._tickets))]
        ticket = secrets.token_urlsafe(24)
        self._tickets[ticket] = None
        return ticket

    def knows(self, ticket: str) -> bool:
        """Return whether a ticket is good."""
        return any(_equal(ticket, one) for one in list(self._tickets))


def _equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))
