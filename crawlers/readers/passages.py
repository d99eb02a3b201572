"""Makes pages of passages (a text with its title, id, URL and date), stored as BEIR's are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, datetime
from numbers import Number
from typing import TYPE_CHECKING, Any

from rag_assay.crawlers.items import Page
from rag_assay.crawlers.readers.files import failed_page
from rag_assay.warehouse.identity import canonical
from rag_assay.warehouse.iso_dates import iso
from rag_assay.warehouse.pages import decode

if TYPE_CHECKING:
    from rag_assay.warehouse.source import Column, Source

CONTENT_TYPE = "application/x-beir+json"


class Passages:
    """Makes pages of the passages of one source; a URL occurs once, and an id once per file. A passage
    without a URL of its own is called `FILE#ID` or `FILE#NUMBER`; what is not a passage, `FILE:NUMBER`.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._limit = source.limits.page_bytes
        self._urls: set[str] = set()
        self._ids: set[str] = set()

    def page(self, name: str, number: int, value: object) -> Page:
        """A failed page where it is neither a string nor a mapping with the source's columns."""
        place = f"{name}:{number}"
        if isinstance(value, str):
            value = {self._source.column("text"): value}
        if not isinstance(value, Mapping):
            return self._failed(place, f"not a passage: {type(value).__name__}")
        if self._source.column("text") not in value:
            return self._failed(place, f"not a passage: it has no {self._source.column('text')!r}")
        try:
            columns = {key: self._text_of(value, key) for key in ("text", "title", "url", "id")}
        except TypeError as error:
            return self._failed(place, f"not a passage: {error}")
        if columns["id"] and f"{name}#{columns['id']}" in self._ids:
            return self._failed(place, "repeated id")
        return self._page(name, number, columns, value.get(self._source.column("date")))

    def _text_of(self, value: Mapping[str, Any], column: Column) -> str:
        name = self._source.column(column)
        try:
            return text_of(value.get(name))
        except TypeError as error:
            raise TypeError(f"its {name!r} is not text but {error}") from error

    def _page(self, name: str, number: int, columns: dict[str, str], day: object) -> Page:
        anchor = f"{name}#{columns['id'] or number}"
        url = self._free(columns["url"] if columns["url"] and columns["url"] not in self._urls else anchor)
        body = canonical({"title": columns["title"], "text": columns["text"]}).encode()
        if not columns["text"].strip() and not columns["title"].strip():
            return self._failed(f"{name}:{number}", "empty passage")
        if len(body) > self._limit:
            return self.too_long(name, number)
        self._urls.add(url)
        fields: dict[str, Any] = _dated(day)
        if columns["id"]:
            self._ids.add(anchor)
            fields |= {"id": columns["id"], "file": name}
        if columns["url"] and columns["url"] != url:
            fields["url"] = columns["url"]
        return Page(url, url, content_type=CONTENT_TYPE, body=body, fields=fields)

    def _free(self, url: str) -> str:
        free, number = url, 1
        while free in self._urls:
            number += 1
            free = f"{url}~{number}"
        return free

    def too_long(self, name: str, number: int) -> Page:
        return self._failed(f"{name}:{number}", f"larger than {self._limit} bytes")

    def broken(self, name: str, number: int, why: str) -> Page:
        return self._failed(f"{name}:{number}", f"not a passage: {why}")

    def _failed(self, place: str, reason: str) -> Page:
        return failed_page(place, reason, CONTENT_TYPE)


def text_of(value: object) -> str:
    """Return a value as text: empty for None and NaN, whole numbers without a point, lone surrogates as "?".

    Raises `TypeError` with the type's name for anything but text, numbers and dates.

    >>> text_of("Ferry"), text_of(b"Ferry"), text_of(7.0), text_of(None), text_of("\\ud800")
    ('Ferry', 'Ferry', '7', '', '?')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, bytes):  # as some writers of Parquet store strings
        return decode(value)[0]
    if isinstance(value, bool) or not isinstance(value, str | Number | date):
        raise TypeError(type(value).__name__)
    return str(value).encode("utf-8", "replace").decode()


def _dated(value: object) -> dict[str, Any]:
    if isinstance(value, date | datetime):
        return {"published_at": value.isoformat()}
    try:
        text = text_of(value).strip()
    except TypeError:
        text = text_of(str(value))
    if not text:
        return {}
    found = iso(text)
    return {"published_at": found} if found else {"date_text": text}
