"""Decides which crawled addresses may become links in the report."""

from __future__ import annotations

from urllib.parse import urlsplit


def safe_link(url: str | None) -> str | None:
    """Return ``url`` when it is a plain http or https address with a host, else None.

    >>> safe_link("https://example.org/a"), safe_link("javascript:alert(1)"), safe_link("https:///x")
    ('https://example.org/a', None, None)
    """
    if not url or any(ord(character) <= 32 or ord(character) == 127 for character in url):
        return None
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    return url if parts.scheme in ("http", "https") and parts.hostname else None
