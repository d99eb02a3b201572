"""The item of spiders and readers: one page, fetched or failed."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Page:
    """One page as fetched.

    url: after redirects, without fragment; the canonical one if it is on the same host
    requested_url: the crawl's first request; status: None without a response, and for files
    body: bytes as served; None exactly when the page failed with a ``reason``
    alias: served under another URL than `url`; a page served under `url` takes precedence
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
    fetched_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    def __post_init__(self) -> None:
        if (self.body is None) == (self.reason is None):
            raise ValueError(f"{self.url}: a page has either a body or a reason for having none")
