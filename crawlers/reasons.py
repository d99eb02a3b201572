"""Why a request brought no page: the reasons that the manifest of a crawl holds."""

from __future__ import annotations

from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    IgnoreRequest,
    ResponseDataLossError,
)
from scrapy.spidermiddlewares.httperror import HttpError

_REASONS = (
    (DownloadTimeoutError, "timeout"),
    (CannotResolveHostError, "host not found"),
    (DownloadConnectionRefusedError, "connection refused"),
    (DownloadFailedError, "connection lost"),
    (ResponseDataLossError, "connection lost"),
    (ConnectionError, "connection lost"),
)
_REFUSALS = {
    "Forbidden by robots.txt": "robots.txt forbids it",
    "max redirections reached": "too many redirects",
}


def reason_of(error: BaseException, page_bytes: int) -> str:
    """Return the reason of a failed request; ``page_bytes`` is the limit that a body may have met."""
    if isinstance(error, HttpError):
        return f"status {error.response.status}"
    if isinstance(error, IgnoreRequest):
        message = str(error)
        return (
            too_large(page_bytes, unpacked=True)
            if "DOWNLOAD_MAXSIZE" in message
            else _REFUSALS.get(message, message)
        )
    if isinstance(error, DownloadCancelledError):
        return too_large(page_bytes)
    known = (reason for kind, reason in _REASONS if isinstance(error, kind))
    return next(known, f"error: {type(error).__name__}")


def too_large(page_bytes: int, *, unpacked: bool = False) -> str:
    """Return the reason of a body that is larger than its limit, as sent or when unpacked."""
    return f"larger than {page_bytes} bytes{' when unpacked' if unpacked else ''}"


def is_unreachable(error: BaseException) -> bool:
    """Return whether a host cannot be asked for anything: no address, no allowed one, or no server."""
    refused = isinstance(error, IgnoreRequest) and str(error).startswith("not a public address")
    return refused or isinstance(error, CannotResolveHostError | DownloadConnectionRefusedError)
