"""Metadata of HTTP responses, for copies of a response and for the page store."""

from __future__ import annotations

from typing import Any
from urllib.parse import urldefrag

from scrapy.http import Response


def parts_of(response: Response) -> dict[str, Any]:
    """Return what a response of another class is made of."""
    return {
        "url": response.url,
        "status": response.status,
        "headers": response.headers,
        "body": response.body,
        "request": response.request,
    }


def facts_of(response: Response, url: str) -> dict[str, Any]:
    """Return the fields of the page (`items.Page`) that a response is, under a URL, but for its body."""

    def header(name: str) -> str | None:
        value = response.headers.get(name)
        return value.decode("latin-1") if value else None

    requested_url = (response.meta.get("redirect_urls") or [response.url])[0]
    known = response.meta.get("fetched_at")  # of a page that was answered from the store
    return {
        **({"fetched_at": known} if known else {}),
        "url": url,
        "requested_url": urldefrag(requested_url).url,
        "status": response.status,
        "content_type": header("Content-Type"),
        "etag": header("ETag"),
        "last_modified": header("Last-Modified"),
    }
