"""The item of spiders and readers: one page, fetched or failed."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Page:
    """One page as fetched.

    url: after redirects, without fragment; the canonical one where the page names one on its own host
    requested_url: where the crawl first asked
    status: HTTP status; None when there was no answer, or the page is a file
    body: the bytes as served, undecoded; None exactly when the page failed
    fields: what spider or reader know of it, JSON values only (title, celex, id, encoding …)
    reason: why there is no body; None exactly when there is one
    alias: the page was served under another URL than `url`; a page served under it takes precedence
    """

    url: str
    requested_url: str
    status: int | None = None
    content_type: str | None = None
    etag: str | None = None
    last_modified: str | None = None
    body: bytes | None = field(default=None, repr=False)
    fields: dict[str, Any] = field(default_factory=dict)
    reason: str | None = None
    alias: bool = False
    fetched_at: datetime = field(default_factory=_now)

    def __post_init__(self) -> None:
        if (self.body is None) == (self.reason is None):
            raise ValueError(f"{self.url}: a page has either a body or a reason for having none")
