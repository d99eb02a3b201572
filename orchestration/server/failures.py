"""Errors of requests in OpenAI's format, with their HTTP status."""

from __future__ import annotations

from typing import Any

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
        """Return the body of the response."""
        return {"error": {"message": str(self), "type": self.kind, "param": self.param, "code": self.code}}


class BadRequestError(RequestError):
    """A request with a field that is wrong."""

    def __init__(self, message: str, param: str | None = None, code: str | None = "invalid_value") -> None:
        super().__init__(400, message, param=param, code=code)


def too_many(message: str, retry_after: int = 1) -> RequestError:
    return RequestError(
        429, message, kind="rate_limit_error", code="rate_limit_exceeded", retry_after=retry_after
    )


def timed_out(seconds: float) -> RequestError:
    """Return the error of a request that took too long."""
    return RequestError(504, f"no answer within {seconds:g} s", kind="timeout_error", code="timeout")


_FAILED: dict[Status, tuple[int, str, str]] = {
    Status.PARSE_FAILED: (502, "server_error", "unreadable_answer"),
    Status.TIMEOUT: (504, "timeout_error", "timeout"),
    Status.RATE_LIMITED: (429, "rate_limit_error", "rate_limit_exceeded"),
    Status.OVER_BUDGET: (429, "insufficient_quota", "insufficient_quota"),
    Status.ERROR: (503, "server_error", "model_unavailable"),
    Status.NOT_RUN: (503, "server_error", "model_unavailable"),
}


def failed_answer(status: Status, reason: str | None, *, has_text: bool) -> RequestError | None:
    """Return the error of an answer that is none; None where there is something to read.

    A refusal is an answer, and so is one that was cut at its longest; a prompt that does not fit is neither.
    """
    if status is Status.TRUNCATED and not has_text:
        message = reason or "the prompt does not fit into the model's window"
        return RequestError(400, message, param="messages", code="context_length_exceeded")
    if status not in _FAILED:
        return None
    number, kind, code = _FAILED[status]
    return RequestError(number, reason or f"the answer ended as {status}", kind=kind, code=code)
