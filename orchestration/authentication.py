"""Passwords and tokens of servers: compared in constant time; failed attempts are counted, slowed, logged."""

from __future__ import annotations

import hmac
import ipaddress
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import TypeVar

FREE = 5  # failed attempts of one address before it has to wait
FREE_IN_ALL = 50
LONGEST = 900.0  # seconds that an address is locked for at most
LONGEST_IN_ALL = 60.0  # shorter: guesses from many addresses lock out those who know the secret
FORGOTTEN = 3600.0  # seconds after its last attempt in which an address is forgotten
LOGGED = 10  # lines of the log in a minute at most
MOST = 10_000  # addresses that are remembered

Value = TypeVar("Value")


class TooManyAttemptsError(Exception):
    """A secret is refused for `seconds`: too many wrong ones were given. `name` is that of the secret."""

    def __init__(self, name: str, seconds: float) -> None:
        self.seconds = math.ceil(seconds)
        super().__init__(f"Too many wrong {name}s. Try again in {self.seconds} s.")


@dataclass
class _Attempts:
    failures: int = 0
    last: float = -math.inf
    locked_until: float = -math.inf
    right_at: float = -math.inf

    def fail(self, now: float, free: int, longest: float) -> None:
        """Count a failure: from the free ones on, the wait doubles with each (1 s, 2 s, 4 s, …)."""
        self.failures = 1 if now - self.last > FORGOTTEN else self.failures + 1
        self.last = now
        if self.failures >= free:
            self.locked_until = now + min(longest, 2.0 ** min(self.failures - free, 30))


@dataclass(eq=False)
class SecretVerifier:
    """Verifies what clients give as a server's password or token.

    Failed attempts are counted by address (IPv6: by /64 network) and in all. A locked address is refused,
    with the right secret too, so that guessing on does not find it.

    name: of the secret, as `password` or `token`
    server: that has it, for the log
    log: takes a line a failure, at most `LOGGED` a minute, without what was given
    with_each_request: clients send the secret with each request, and have no session that outlives a lock. So
        an address that gave the right one within the last hour is answered while it is locked, for it may be
        a proxy's; wrong ones from there are refused all the same

    Safe to use from many threads.
    """

    secret: str = field(repr=False)
    name: str
    _: KW_ONLY
    server: str
    log: Callable[[str], None]
    with_each_request: bool = False
    clock: Callable[[], float] = time.monotonic
    _in_all: _Attempts = field(init=False, default_factory=_Attempts)
    # The address that tried last is at the end.
    _by_address: dict[str, _Attempts] = field(init=False, default_factory=dict)
    _logged: deque[float] = field(init=False, default_factory=deque)
    _unlogged: int = field(init=False, default=0)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)

    def is_right(self, given: str, address: str | None = None) -> bool:
        """Return whether the secret was given.

        address: the client's IP address; None: this machine

        Raises:
            TooManyAttemptsError: too many wrong ones were given.
        """
        source = _network(address)
        with self._lock:  # also while comparing: clients that guess at once count one after another
            now = self.clock()
            attempts = self._by_address.get(source, _Attempts())
            locked = max(attempts.locked_until, self._in_all.locked_until) - now
            is_right = equal(given, self.secret)
            is_known = self.with_each_request and now - attempts.right_at < FORGOTTEN
            if locked > 0 and not (is_right and is_known):
                raise TooManyAttemptsError(self.name, locked)
            if not is_right:
                attempts.fail(now, FREE, LONGEST)
                self._in_all.fail(now, FREE_IN_ALL, LONGEST_IN_ALL)
                self._report(source, attempts, now)
            elif self.with_each_request:
                attempts.right_at = now
            else:
                attempts = _Attempts()
            self._by_address.pop(source, None)
            make_room(self._by_address)
            self._by_address[source] = attempts
            return is_right

    def _report(self, source: str, attempts: _Attempts, now: float) -> None:
        while self._logged and now - self._logged[0] >= 60:
            self._logged.popleft()
        if len(self._logged) >= LOGGED:
            self._unlogged += 1
            return
        self._logged.append(now)
        seconds = max(0.0, attempts.locked_until - now)
        self.log(
            f"wrong {self.name} for {self.server} from {source}, number {attempts.failures}; "
            f"locked for {seconds:.0f} s; {self._unlogged} not logged before"
        )
        self._unlogged = 0


def equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))


def make_room(held: dict[str, Value]) -> None:
    """Drop the oldest items, so that one more leaves `MOST` of them."""
    while len(held) >= MOST:
        del held[next(iter(held))]


def _network(address: str | None) -> str:
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
