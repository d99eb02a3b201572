"""The password of the pages: compared in constant time, asked for once in a browser's tab, guessed slowly."""

from __future__ import annotations

import hmac
import ipaddress
import logging
import math
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

FREE = 5  # wrong passwords of one address before it has to wait
FREE_IN_ALL = 50
LONGEST = 900.0  # seconds that an address is locked for at most
LONGEST_IN_ALL = 60.0  # shorter: whoever guesses from many addresses locks out those who know the password
FORGOTTEN = 3600.0  # seconds after its last wrong password in which an address is forgotten
LOGGED = 10  # lines of the log in a minute at most
_MOST = 10_000  # tickets, and addresses, that are remembered
_log = logging.getLogger("assay.pages")


class TooManyAttemptsError(Exception):
    """No password is compared for `seconds`: too many wrong ones were given."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"Too many wrong passwords. Try again in {math.ceil(seconds)} s.")
        self.seconds = math.ceil(seconds)


@dataclass
class _Failures:
    count: int = 0
    last: float = -math.inf
    locked_until: float = -math.inf

    def add(self, now: float, free: int, longest: float) -> None:
        """Count a failure: from the free ones on, the wait doubles with each (1 s, 2 s, 4 s, …)."""
        self.count = 1 if now - self.last > FORGOTTEN else self.count + 1
        self.last = now
        if self.count >= free:
            self.locked_until = now + min(longest, 2.0 ** min(self.count - free, 30))


class PasswordGate:
    """Who may go in: every visitor where there is no password.

    A ticket is a random word that a browser's tab keeps in place of the password; it is good until the server
    ends, also while passwords are locked. Wrong passwords are counted over all sessions, by address (IPv6: by
    /64 network) and in all.

    Safe to use from many threads.
    """

    def __init__(
        self, password: str | None, page: str = "", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._password = password or None
        self._page = page
        self._clock = clock
        self._tickets: dict[str, None] = {}
        self._in_all = _Failures()
        self._by_address: dict[str, _Failures] = {}  # the one that failed last at the end
        self._logged: deque[float] = deque()
        self._unlogged = 0
        self._lock = threading.Lock()

    @property
    def is_open(self) -> bool:
        """Whether no password is needed."""
        return self._password is None

    def enter(self, password: str, address: str | None = None) -> str | None:
        """Return a ticket for the right password; None for another.

        address: the client's IP address; None: this machine

        Raises:
            TooManyAttemptsError: too many wrong ones were given; this one was not compared.
        """
        source = _network(address)
        with self._lock:  # also while comparing: sessions that guess at once count one after another
            now = self._clock()
            failures = self._by_address.get(source, _Failures())
            locked = max(failures.locked_until, self._in_all.locked_until) - now
            if locked > 0:
                raise TooManyAttemptsError(locked)
            if self._password is None or not _equal(password, self._password):
                failures.add(now, FREE, LONGEST)
                self._in_all.add(now, FREE_IN_ALL, LONGEST_IN_ALL)
                self._by_address.pop(source, None)
                _make_room(self._by_address)
                self._by_address[source] = failures
                self._report(source, failures, now)
                return None
            self._by_address.pop(source, None)
            _make_room(self._tickets)
            ticket = secrets.token_urlsafe(24)
            self._tickets[ticket] = None
            return ticket

    def knows(self, ticket: str) -> bool:
        """Return whether a ticket is good."""
        return any(_equal(ticket, one) for one in list(self._tickets))

    def _report(self, source: str, failures: _Failures, now: float) -> None:
        while self._logged and now - self._logged[0] >= 60:
            self._logged.popleft()
        if len(self._logged) >= LOGGED:
            self._unlogged += 1
            return
        self._logged.append(now)
        _log.warning(
            "wrong password for the %s page from %s, number %d; locked for %.0f s; %d not logged before",
            self._page,
            source,
            failures.count,
            max(0.0, failures.locked_until - now),
            self._unlogged,
        )
        self._unlogged = 0


def _make_room(held: dict[str, _Failures] | dict[str, None]) -> None:
    while len(held) >= _MOST:
        del held[next(iter(held))]


def _network(address: str | None) -> str:
    """Return what one client can be told by: its IPv4 address, or its IPv6 network."""
    if address is None:
        return "this machine"
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return "an unknown address"
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((found.packed[:8] + bytes(8), 64)))
    return str(found)


def _equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))
