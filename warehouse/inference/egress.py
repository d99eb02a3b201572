"""Where HTTP requests to model servers may go, and the gate in the HTTP clients that holds them to it.

Once a study or export names servers (`allow`), no call goes to others than those and this machine; redirects
too. Secrets of an address (user, password, query) are held here alone and added to a request as it leaves.
"""

from __future__ import annotations

import ipaddress
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pydantic import SecretStr

from rag_assay.warehouse.inference.redaction import keep_secrets_out_of_logs, know_url

if TYPE_CHECKING:
    import httpx

_PORTS = {"http": 80, "https": 443}
_ODD = re.compile(r"[\s\\\x00-\x1f\x7f]")


class NotAllowedError(Exception):
    """A request was not sent, for its call allows no request to that server."""


@dataclass(frozen=True)
class Carried:
    """What requests to an address carry beside it: basic authorization, and query names with values."""

    authorization: SecretStr | None
    query: tuple[tuple[str, SecretStr], ...]


@dataclass(frozen=True)
class Destination:
    """Origins (`scheme://host:port`) to which requests of a call may go, and what is added to each."""

    origins: frozenset[str]
    carried: Carried | None = None

    def admits(self, url: httpx.URL) -> bool:
        plain = {f"http://{_host(url)}:80"} if url.scheme == "https" and url.port in {None, 443} else set()
        return not self.origins.isdisjoint({_origin(url), *plain})


opened: set[str] | None = None
"""Servers that what was opened in this process names: origins, or LiteLLM's names of providers; None: nothing
was opened, and each call goes where it says."""

_carried: dict[str, Carried] = {}
_allowed: ContextVar[Destination | None] = ContextVar("allowed", default=None)


def allow(servers: Iterable[str]) -> None:
    """Let calls go to origins or LiteLLM's providers, too; then to no others but this machine."""
    global opened  # noqa: PLW0603 -- a process has one list, whichever thread asks
    opened = {*(opened or ()), *servers}


def is_allowed(server: str) -> bool:
    return opened is None or server in opened or ("://" in server and is_of_this_machine(server))


def is_of_this_machine(address: str) -> bool:
    """Return whether an address leads to this machine alone.

    >>> is_of_this_machine("http://127.0.0.1:8000/v1"), is_of_this_machine("https://api.example/v1")
    (True, False)
    """
    import httpx

    host = httpx.URL(address).host
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@lru_cache(256)
def origin(address: str) -> str:
    """Return the origin of an address. Raises ValueError: it is no address of HTTP.

    >>> origin("https://User:secret@API.example/v1?x=1"), origin("http://[::1]:8000/v1")
    ('https://api.example:443', 'http://[::1]:8000')
    """
    return _origin(_url(address))


def public(address: str) -> str:
    """Return an address without its user, password and query, which requests to it carry from now on. Raises
    ValueError: it is no address of HTTP; the message repeats nothing of it.
    """
    plain = without_credentials(address)
    if plain == address:
        return address
    know_url(address)
    _carried[plain.rstrip("/")] = carried_by(address)
    return plain


def carried_by(address: str) -> Carried:
    """Return what an address says beside its server and path. Raises ValueError: it is no address of HTTP."""
    url = _url(address)
    login = unquote(url.userinfo.decode()).encode()
    return Carried(
        SecretStr(f"Basic {b64encode(login).decode()}") if login else None,
        tuple((name, SecretStr(value)) for name, value in url.params.multi_items()),
    )


@lru_cache(256)
def without_credentials(address: str) -> str:
    """Raises ValueError: no address of HTTP; the message repeats nothing of it."""
    url = _url(address)
    if not (url.userinfo or url.query or url.fragment):
        return address
    return str(url.copy_with(userinfo=b"", query=None, fragment=None))


def request_context(address: str) -> Carried | None:
    return _carried.get(address.rstrip("/"))


@contextmanager
def only_to(destination: Destination) -> Iterator[None]:
    token = _allowed.set(destination)
    try:
        yield
    finally:
        _allowed.reset(token)


def guard_client(client: httpx.Client) -> httpx.Client:
    """Put the gate into a client, and return it; from now on, what is logged of requests holds no secret."""
    keep_secrets_out_of_logs()
    hooks = client.event_hooks
    if _admit not in hooks["request"]:
        client.event_hooks = {**hooks, "request": [_admit, *hooks["request"]]}
    return client


def guard_litellm(litellm: Any) -> None:
    guard_client(litellm.client_session)
    from litellm.llms.custom_httpx.http_handler import HTTPHandler

    if not hasattr(HTTPHandler, "unguarded_client"):
        HTTPHandler.unguarded_client = HTTPHandler.create_client
        HTTPHandler.create_client = lambda handler: guard_client(handler.unguarded_client())


def _admit(request: httpx.Request) -> None:
    request.url, more = admit(request.url)
    request.headers.update(more)


def admit(url: httpx.URL) -> tuple[httpx.URL, dict[str, str]]:
    """Return a request's address and headers, with their secrets. Raises NotAllowedError."""
    allowed = _allowed.get()
    if allowed is None or not allowed.admits(url):
        known = " and ".join(sorted(allowed.origins)) if allowed else "no server"
        raise NotAllowedError(
            f"not sent to {_origin(url)}: the model's requests go to {known}; "
            "name another server as `api_base`"
        )
    carried = allowed.carried
    if carried is None:
        return url, {}
    headers = {"Authorization": carried.authorization.get_secret_value()} if carried.authorization else {}
    if carried.query:
        url = url.copy_merge_params([(name, value.get_secret_value()) for name, value in carried.query])
    return url, headers


@lru_cache(256)
def _url(address: str) -> httpx.URL:
    import httpx

    try:
        url = httpx.URL(address)
        is_known = url.scheme in _PORTS and bool(url.host) and (url.port is None or 0 < url.port < 65536)
    except (httpx.InvalidURL, ValueError, TypeError):
        is_known = False
    if not is_known or _ODD.search(address):
        raise ValueError("an address begins with http:// or https://, as in http://127.0.0.1:8000/v1")
    return url


def _host(url: httpx.URL) -> str:
    host = url.host.rstrip(".").lower()
    return f"[{host}]" if ":" in host else host


def _origin(url: httpx.URL) -> str:
    return f"{url.scheme}://{_host(url)}:{url.port or _PORTS.get(url.scheme)}"
