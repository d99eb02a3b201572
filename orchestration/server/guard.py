"""Access control of the server: token, host, origin, size of a request; logs requests without their content.

A page of the internet whose name is made to lead to this machine (DNS rebinding) has a browser ask us as if
it were ours: so on loopback the `Host` must be one of loopback, and an `Origin` one of ours.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rag_assay.orchestration.authentication import SecretVerifier, TooManyAttemptsError
from rag_assay.orchestration.loopback import is_loopback, is_same_origin
from rag_assay.orchestration.server import connections
from rag_assay.orchestration.server.failures import RequestError, too_many

Log = Callable[[str], None]
OPEN = {"/health"}
"""Paths that need no token: health checks of monitoring have none."""


@dataclass(frozen=True)
class AccessRules:
    """Who may ask.

    token: None: everybody who reaches the server
    host: that it listens on; on loopback only loopback's names are answered
    origins: of web pages, beside the server's own, whose scripts may ask
    body: bytes of a request
    """

    token: str | None
    host: str
    origins: frozenset[str] = frozenset()
    body: int = 1_000_000


class Guard:
    """An ASGI application around another one."""

    def __init__(self, app: ASGIApp, rules: AccessRules, log: Log) -> None:
        self._app = app
        self._rules = rules
        self._log = log
        self._token = (
            SecretVerifier(rules.token, "token", server="this server", log=log, with_each_request=True)
            if rules.token is not None
            else None
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begin, status = time.perf_counter(), 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        try:
            body = await self._checked(scope, receive)
            await self._app(scope, body, sending)
        except RequestError as error:
            await error.response()(scope, receive, sending)
        finally:
            spent = time.perf_counter() - begin
            method, path = scope["method"], _plain(scope["path"])
            self._log(f"{method} {path} {status or '-'} {1000 * spent:.0f} ms")

    async def _checked(self, scope: Scope, receive: Receive) -> Receive:
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
        }
        refuse_strangers(headers, self._rules, scope["scheme"])
        is_preflight = scope["method"] == "OPTIONS" and headers.get("origin") in self._rules.origins
        if self._token is not None and scope["path"] not in OPEN and not is_preflight:
            client = scope.get("client")
            refuse_without_token(headers, self._token, client[0] if client else None)
        return await _bounded(headers, receive, self._rules.body)


def refuse_strangers(headers: dict[str, str], rules: AccessRules, scheme: str = "http") -> None:
    host = headers.get("host", "")
    if is_loopback(rules.host) and not _is_of_loopback(f"//{host}"):
        what = "this server answers to the names of loopback alone (127.0.0.1, localhost)"
        raise RequestError(421, what, code="wrong_host")
    origin = headers.get("origin")
    if origin is not None and origin not in rules.origins:
        same = is_same_origin(origin, scheme, host)
        if not same or (is_loopback(rules.host) and not _is_of_loopback(origin)):
            raise RequestError(403, "scripts of other web pages may not ask this server", code="wrong_origin")


def refuse_without_token(headers: dict[str, str], token: SecretVerifier, address: str | None) -> None:
    """Refuse a request without the token. One that gives none is no attempt."""
    kind, _, given = headers.get("authorization", "").partition(" ")
    given = given.strip()
    try:
        if kind.lower() == "bearer" and given and token.is_right(given, address):
            return
    except TooManyAttemptsError as error:
        raise too_many(str(error), error.seconds) from None
    what = "the token is missing or wrong; send `Authorization: Bearer …`"
    raise RequestError(401, what, kind="authentication_error", code="invalid_api_key")


async def _bounded(headers: dict[str, str], receive: Receive, most: int) -> Receive:
    too_large = RequestError(413, f"the request is larger than {most:,} bytes", code="request_too_large")
    length = headers.get("content-length")
    if length is not None and (not length.isdigit() or int(length[:20]) > most):
        raise too_large
    parts: list[bytes] = []
    more, size = True, 0
    try:
        async with asyncio.timeout(connections.BODY):
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    break
                parts.append(message.get("body", b""))
                more = message.get("more_body", False)
                size += len(parts[-1])
                if size > most:
                    raise too_large
    except TimeoutError:
        late = f"the request did not come within {connections.BODY:g} s"
        raise RequestError(408, late, code="request_timeout") from None
    body = b"".join(parts)
    is_given = False

    async def give() -> Message:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return give


_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'"),
)


def _is_of_loopback(address: str) -> bool:
    try:
        return is_loopback(urlsplit(address).hostname or "")
    except ValueError:
        return False


def _plain(path: str) -> str:
    return "".join(sign if sign.isprintable() else "?" for sign in path)[:200]
