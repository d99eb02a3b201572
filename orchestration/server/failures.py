"""Errors of requests in OpenAI's format, with their HTTP status.

The body is `error` with `message`, `type`, `param` and `code`. A failure after the first five seconds of a
stream is an error event.

| status | when |
|---|---|
| 400 | a field is wrong (`param`), or the prompt exceeds the model's window (`context_length_exceeded`) |
| 401 | the token is missing or wrong |
| 403, 421 | a script of another origin, or a `Host` that is no name of this machine |
| 404 | another model or path; a cell without a generator has `/retrieve` only |
| 408 | the body did not arrive within 30 s |
| 413 | the request is larger than `--max-body` |
| 429 | too many requests or wrong tokens (`rate_limit_exceeded`, with `Retry-After`) |
| 429 | the budget is spent (`insufficient_quota`) |
| 500 | the search failed |
| 502, 503 | the model's answer cannot be read; its server cannot be reached or refuses |
| 504 | no answer within `--timeout` |
"""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse, Response

from rag_assay.evals.chat.question_requests import QuestionError
from rag_assay.orchestration.question_service.worker_pool import BusyError
from rag_assay.warehouse.conversations import Turn
from rag_assay.warehouse.inference.redaction import one_line
from rag_assay.warehouse.schemas import Status


class RequestError(Exception):
    """A request that is not answered.

    status: of HTTP
    kind: OpenAI's type of error
    param: the field that is wrong
    code: for programs
    retry_after: seconds after which it may be tried again
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.param = param
        self.code = code
        self.retry_after = retry_after

    def record(self) -> dict[str, Any]:
        return {"error": {"message": str(self), "type": self.kind, "param": self.param, "code": self.code}}

    def response(self) -> Response:
        headers = {"Retry-After": str(self.retry_after)} if self.retry_after else {}
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        if self.status in {408, 413}:  # the rest of the body is not read
            headers["Connection"] = "close"
        return JSONResponse(self.record(), self.status, headers)


class BadRequestError(RequestError):
    """A request with a field that is wrong."""

    def __init__(self, message: str, param: str | None = None, code: str | None = "invalid_value") -> None:
        super().__init__(400, message, param=param, code=code)


def too_many(message: str, retry_after: int = 1) -> RequestError:
    return RequestError(
        429, message, kind="rate_limit_error", code="rate_limit_exceeded", retry_after=retry_after
    )


def request_error(error: Exception, field: str = "question") -> RequestError:
    """Return what a client is told of an error; field: of the request, where the question stands."""
    match error:
        case RequestError():
            return error
        case QuestionError():
            return BadRequestError(str(error), field if error.field == "question" else error.field)
        case BusyError() if error.retry_after is not None:
            return too_many(str(error), error.retry_after)
        case BusyError():
            return RequestError(503, str(error), kind="server_error", code="stopping")
        case TimeoutError():
            return RequestError(504, str(error), kind="timeout_error", code="timeout")
    return RequestError(500, one_line(str(error)), kind="server_error", code="failed")


_FAILED: dict[Status, tuple[int, str, str]] = {
    Status.PARSE_FAILED: (502, "server_error", "unreadable_answer"),
    Status.TIMEOUT: (504, "timeout_error", "timeout"),
    Status.RATE_LIMITED: (429, "rate_limit_error", "rate_limit_exceeded"),
    Status.OVER_BUDGET: (429, "insufficient_quota", "insufficient_quota"),
    Status.ERROR: (503, "server_error", "model_unavailable"),
    Status.NOT_RUN: (503, "server_error", "model_unavailable"),
}


def refuse_failed(turn: Turn) -> None:
    """Raise the error of a turn without an answer.

    A refusal is an answer, and so is one that was cut at its longest; a prompt that does not fit is neither.
    """
    if turn.status is Status.TRUNCATED and not turn.answer:
        message = turn.reason or "the prompt does not fit into the model's window"
        raise RequestError(400, message, param="messages", code="context_length_exceeded")
    if turn.status is Status.ERROR and turn.search_seconds is None:
        raise RequestError(500, turn.reason or "the search failed", kind="server_error", code="search_failed")
    if turn.status in _FAILED:
        number, kind, code = _FAILED[turn.status]
        message = turn.reason or f"the answer ended as {turn.status}"
        raise RequestError(number, message, kind=kind, code=code)
