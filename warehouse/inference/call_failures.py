"""Classifies failed calls: the status, whether a retry may help, whether the model can be asked at all."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from warehouse.inference.http_limits import ReplyTooLargeError
from warehouse.inference.model_servers import litellm, unreachable
from warehouse.schemas import Status

LONGEST_WAIT = 60.0  # seconds: a server that asks for more is left alone until the next run

_BY_CODE = {
    "content_policy_violation": Status.REFUSED,
    "content_filter": Status.REFUSED,
    "context_length_exceeded": Status.TRUNCATED,
}
_PASSING = {408, 425} | (set(range(500, 600)) - {501, 505})


def status_of(error: Exception) -> Status:
    """Return the typed status of a failed call."""
    module = litellm()
    by_class = (
        (module.Timeout, Status.TIMEOUT),
        (module.RateLimitError, Status.RATE_LIMITED),
        (module.ContentPolicyViolationError, Status.REFUSED),
        # The same prompt will never fit: not an error that another run may mend.
        (module.ContextWindowExceededError, Status.TRUNCATED),
    )
    for kind, status in by_class:
        if isinstance(error, kind):
            return status
    if any(isinstance(cause, httpx.ReadTimeout) for cause in _causes(error)):
        return Status.TIMEOUT
    # LiteLLM tells these two by their analyzer, which differs from server to server; the code does not.
    return _BY_CODE.get(str(getattr(error, "code", None)), Status.ERROR)


def reason_of(error: Exception) -> str:
    """Return what went wrong; where a library hides what its transport said ("Connection error."), that."""
    hidden = [cause for cause in _causes(error) if isinstance(cause, httpx.HTTPError | httpx.InvalidURL)]
    kept = [cause for cause in hidden if not isinstance(cause, httpx.HTTPStatusError) and str(cause)]
    shown = kept[-1] if kept and not _is_from_server(error) else error
    return f"{type(shown).__name__}: {shown}"


def retry_wait(error: Exception, attempt: int) -> float | None:
    """Return the seconds to wait before the next attempt, or None when there should be none.

    attempt: how many there were before the one that failed
    """
    module = litellm()
    # LiteLLM's errors carry a made-up response; the server's own headers stand beside it.
    headers = getattr(error, "litellm_response_headers", None)
    if headers is None and status_of(error) is Status.TIMEOUT:
        return None  # silence; 408 and 504 are answers
    passing = (
        module.RateLimitError,
        module.InternalServerError,
        module.ServiceUnavailableError,
        module.BadGatewayError,
        module.APIConnectionError,
    )
    code = getattr(error, "status_code", None)
    is_passing = isinstance(error, passing) or (headers is not None and code in _PASSING)
    if not is_passing or _is_lasting(error):
        return None
    wait = retry_after(headers or {})
    if wait is None:
        return min(2.0**attempt, LONGEST_WAIT)
    return wait if wait <= LONGEST_WAIT else None


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Read `Retry-After`: seconds, or an HTTP date; None when it is missing or neither."""
    value = headers.get("retry-after")
    if not value:
        return None
    with suppress(ValueError):
        return max(0.0, float(value))
    with suppress(ValueError, TypeError):
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    return None


def obstacle(error: Exception, model: str, api_base: str | None, *, answered: bool) -> str | None:
    """Return what will fail every further call to the same model in the same way; None: the next may succeed.

    A missing or refused key, an account without money, an address that leads nowhere, a model that the server
    does not have. Of a server that was reachable before, too: whoever restarts it runs the study again.

    answered: the model has answered before, so that a 403 is about what was asked
    """
    where = api_base or "the provider's server"
    kinds = [
        (socket.gaierror, f"host not found: {api_base or model}"),
        (ConnectionRefusedError, f"connection refused: nothing listens at {where}"),
        (httpx.UnsupportedProtocol, f"`{api_base}` is no address; it must begin with http:// or https://"),
    ]
    for cause in _causes(error):
        for kind, words in kinds:
            if isinstance(cause, kind):
                return words
    if _is_from_server(error):
        lasting = {401, 402, 404} if answered else {401, 402, 403, 404}
        is_lasting = getattr(error, "status_code", None) in lasting or _is_out_of_money(error)
        return reason_of(error) if is_lasting else None
    return unreachable(model, api_base)


def _is_lasting(error: Exception) -> bool:
    """Return whether an error that looks like a passing one is none."""
    lasting = (httpx.UnsupportedProtocol, ReplyTooLargeError)
    if any(isinstance(cause, lasting) for cause in _causes(error)):
        return True
    text = str(error).lower()
    # The clients of some providers complain of a missing key as of a failure of the server.
    is_key = "missing" in text and ("credentials" in text or "api key" in text or "api_key" in text)
    return (not _is_from_server(error) and is_key) or _is_out_of_money(error)


def _is_out_of_money(error: Exception) -> bool:
    return any(getattr(cause, "code", None) == "insufficient_quota" for cause in _causes(error))


def _is_from_server(error: Exception) -> bool:
    return getattr(error, "litellm_response_headers", None) is not None


def _causes(error: BaseException) -> Iterator[Any]:
    """Yield an error and what it was raised from, in turn."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__
