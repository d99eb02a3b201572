"""Passages, as files hold them: text with what is known of it. They are stored as BEIR's are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from crawlers.items import Page
from crawlers.markup import iso
from crawlers.reading.files import failed
from warehouse.identity import canonical
from warehouse.source import Source

CONTENT_TYPE = "application/x-beir+json"


class Passages:
    """Makes pages of the passages of one source; a URL comes once only, so does an id.

    A passage without a URL is called `FILE#ID`, or `FILE#NUMBER`; so is one whose URL another one had.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._limit = source.limits.page_bytes
        self._urls: set[str] = set()
        self._ids: set[str] = set()

    def page(self, name: str, number: int, value: object) -> Page:
        """Return the page of one passage, a string or an object; a failed one if it is none.

        Args:
            name: of the file.
            number: of the passage in the file, from 1; ``value`` is what stands there.
            value: a string, or a mapping with the source's columns.
        """
        place = f"{name}#{number}"
        if isinstance(value, str):
            value = {self._source.column("text"): value}
        if not isinstance(value, Mapping):
            return self._failed(place, f"not a passage: {type(value).__name__}")
        if self._source.column("text") not in value:
            return self._failed(place, f"not a passage: it has no {self._source.column('text')!r}")
        said = {key: _text(value.get(self._source.column(key))) for key in ("text", "title", "url", "id")}
        if said["id"] and said["id"] in self._ids:
            return self._failed(place, "repeated id")
        day = value.get(self._source.column("date"))
        return self._page(name, place, said, day)

    def _page(self, name: str, place: str, said: dict[str, str], day: object) -> Page:
        own = f"{name}#{said['id']}" if said["id"] else place
        url = said["url"] if said["url"] and said["url"] not in self._urls else own
        if url in self._urls:
            url = place
        body = canonical({"title": said["title"], "text": said["text"]}).encode("utf-8", "replace")
        if not said["text"].strip() and not said["title"].strip():
            return self._failed(place, "empty passage")
        if len(body) > self._limit:
            return self._failed(place, f"larger than {self._limit} bytes")
        self._urls.add(url)
        fields: dict[str, Any] = _dated(day)
        if said["id"]:
            self._ids.add(said["id"])
            fields["id"] = said["id"]
        if said["url"] and said["url"] != url:
            fields["url"] = said["url"]
        return Page(url, url, content_type=CONTENT_TYPE, body=body, fields=fields)

    def too_long(self, name: str, number: int) -> Page:
        """Return the failed page of a line that is longer than a page may be."""
        return self._failed(f"{name}#{number}", f"larger than {self._limit} bytes")

    def broken(self, name: str, number: int, why: str) -> Page:
        """Return the failed page of a place where no passage can be read."""
        return self._failed(f"{name}#{number}", f"not a passage: {why}")

    def _failed(self, place: str, reason: str) -> Page:
        return failed(place, reason, CONTENT_TYPE)


def _text(value: object) -> str:
    """Return a cell's value as text: nothing for None and NaN, whole numbers without a point."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value if isinstance(value, str) else str(value)


def _dated(value: object) -> dict[str, Any]:
    """Return `published_at` in ISO 8601; what is no date that can be read stays as it is, `date_text`."""
    if isinstance(value, date | datetime):
        return {"published_at": value.isoformat()}
    text = _text(value).strip()
    if not text:
        return {}
    found = iso(text)
    return {"published_at": found} if found else {"date_text": text}
