"""Classifies failed calls: the status, whether a retry may help, whether the model can be asked at all."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import httpx

from rag_assay.warehouse.inference.chat_completions import MissingKeyError, NoCompletionError, ServerError
from rag_assay.warehouse.inference.egress import NotAllowedError
from rag_assay.warehouse.inference.http_limits import ReplyTooLargeError
from rag_assay.warehouse.inference.model_servers import UnknownServerError, litellm, unreachable
from rag_assay.warehouse.iso_dates import retry_after
from rag_assay.warehouse.status import Status

_BY_CODE = {
    "content_policy_violation": Status.REFUSED,
    "content_filter": Status.REFUSED,
    "context_length_exceeded": Status.TRUNCATED,
    "exceed_context_size_error": Status.TRUNCATED,
}
_OURS = (httpx.InvalidURL, NoCompletionError, MissingKeyError, UnknownServerError)
_PASSING = {408, 425} | (set(range(500, 600)) - {501, 505})

# What servers say of a prompt that does not fit, and of one that they will not answer: LiteLLM's lists.
_TOO_LONG = re.compile(
    r"exceed context limit|maximum context l(?:ength|imit)|string too long\. expected"
    r"|longer than the model's context|input tokens exceed|`inputs` tokens \+ `max_new_tokens`"
    r"|exceeds the (?:available context|maximum number of tokens)|current length is .* while limit is"
    r"|maximum input length is",
    re.IGNORECASE,
)
_REFUSED = re.compile(
    r"violating our usage policy|rejected (?:as a result of|by) (?:the|our) safety system", re.IGNORECASE
)


class CallFailure(NamedTuple):
    """Whether a failed call may succeed later, is refused by a limit, and after how many seconds."""

    is_passing: bool
    is_limit: bool = False
    retry_after: float | None = None


def status_of(error: Exception) -> Status:
    if any(isinstance(cause, httpx.TimeoutException) for cause in _causes(error)):
        return Status.TIMEOUT
    if isinstance(error, ServerError):
        return _status_of_answer(error)
    if isinstance(error, (httpx.HTTPError, *_OURS, NotAllowedError)):
        return Status.ERROR
    module = litellm()
    by_class = (
        (module.Timeout, Status.TIMEOUT),
        (module.RateLimitError, Status.RATE_LIMITED),
        (module.ContentPolicyViolationError, Status.REFUSED),
        # The same prompt will never fit: not an error that another run may fix.
        (module.ContextWindowExceededError, Status.TRUNCATED),
    )
    # LiteLLM tells these two by their analyzer, which differs from server to server; the code does not.
    by_code = _BY_CODE.get(str(getattr(error, "code", None)), Status.ERROR)
    return next((status for kind, status in by_class if isinstance(error, kind)), by_code)


def _status_of_answer(error: ServerError) -> Status:
    if error.code in _BY_CODE:
        return _BY_CODE[error.code]
    if error.status_code == 429:
        return Status.RATE_LIMITED
    if error.status_code in {408, 504}:
        return Status.TIMEOUT
    if error.status_code < 500 and _TOO_LONG.search(str(error)):
        return Status.TRUNCATED
    return Status.REFUSED if error.status_code < 500 and _REFUSED.search(str(error)) else Status.ERROR


def reason_of(error: Exception) -> str:
    """Return what went wrong; where a library hides what its transport said ("Connection error."), that."""
    if isinstance(error, ServerError | NoCompletionError):
        return str(error)
    hidden = [cause for cause in _causes(error) if isinstance(cause, httpx.HTTPError | httpx.InvalidURL)]
    kept = [cause for cause in hidden if not isinstance(cause, httpx.HTTPStatusError) and str(cause)]
    shown = kept[-1] if kept and not _is_from_server(error) else error
    return f"{type(shown).__name__}: {shown}"


def fault_of(error: Exception) -> CallFailure:
    headers = _server_headers(error)
    if _is_lasting(error) or not _may_pass(error, headers):
        return CallFailure(is_passing=False)
    wait = retry_after((headers or {}).get("retry-after"))
    is_limit = status_of(error) is Status.RATE_LIMITED or bool(wait)
    return CallFailure(is_passing=True, is_limit=is_limit, retry_after=wait)


def _may_pass(error: Exception, headers: Mapping[str, str] | None) -> bool:
    if isinstance(error, ServerError):
        return error.status_code == 429 or error.status_code in _PASSING
    if isinstance(error, httpx.HTTPError):  # a dropped connection; not silence, which has cost its seconds
        return isinstance(error, httpx.NetworkError | httpx.RemoteProtocolError)
    if isinstance(error, _OURS):
        return False
    if headers is None and status_of(error) is Status.TIMEOUT:
        return False  # silence; 408 and 504 are answers
    module = litellm()
    passing = (
        module.RateLimitError,
        module.InternalServerError,
        module.ServiceUnavailableError,
        module.BadGatewayError,
        module.APIConnectionError,
    )
    code = getattr(error, "status_code", None)
    return isinstance(error, passing) or (headers is not None and code in _PASSING)


def obstacle(error: Exception, model: str | None, api_base: str | None, *, answered: bool) -> str | None:
    """Return what will fail every further call to the model in the same way (key, money, address).
    ``model`` None: a system; ``answered``: the model has answered before, so that a 403 is about what was
    asked.
    """
    where = api_base or "the provider's server"
    kinds: list[tuple[type[BaseException] | tuple[type[BaseException], ...], str | None]] = [
        (socket.gaierror, f"host not found: {api_base or model}"),
        ((NotAllowedError, UnknownServerError), None),
        (ConnectionRefusedError, f"connection refused: nothing listens at {where}"),
        (
            httpx.UnsupportedProtocol,
            f"`{api_base}` is not an address; it must begin with http:// or https://",
        ),
    ]
    for cause in _causes(error):
        for kind, words in kinds:
            if isinstance(cause, kind):
                return words or str(cause)
    if _is_from_server(error):
        lasting = {401, 402, 403, 404} if not answered else {401, 402, 404} if model else {401, 402}
        is_lasting = getattr(error, "status_code", None) in lasting or _is_out_of_money(error)
        return reason_of(error) if is_lasting else None
    return unreachable(model, api_base) if model else None


def _is_lasting(error: Exception) -> bool:
    lasting = (httpx.UnsupportedProtocol, ReplyTooLargeError, NotAllowedError)
    if any(isinstance(cause, lasting) for cause in _causes(error)):
        return True
    text = str(error).lower()
    # The clients of some providers complain of a missing key as of a failure of the server.
    is_key = "missing" in text and ("credentials" in text or "api key" in text or "api_key" in text)
    return (not _is_from_server(error) and is_key) or _is_out_of_money(error)


def _is_out_of_money(error: Exception) -> bool:
    return any(getattr(cause, "code", None) == "insufficient_quota" for cause in _causes(error))


def _is_from_server(error: Exception) -> bool:
    return _server_headers(error) is not None


def _server_headers(error: Exception) -> Mapping[str, str] | None:
    if isinstance(error, ServerError):
        return error.headers
    # LiteLLM's errors carry a made-up response; the server's own headers are another attribute.
    found: Mapping[str, str] | None = getattr(error, "litellm_response_headers", None)
    return found


def _causes(error: BaseException) -> Iterator[Any]:
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__
