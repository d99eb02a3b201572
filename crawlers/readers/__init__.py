"""Readers: local files instead of sites. A reader yields pages and knows no Scrapy."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rag_assay.warehouse.source import UNLIMITED, Source
from rag_assay.warehouse.source_kinds import READERS

if TYPE_CHECKING:
    from rag_assay.crawlers.items import Page
    from rag_assay.crawlers.readers.contract import Reader


def pages_of(source: Source) -> Iterator[Page]:
    reader: Reader = READERS[source.reader or ""].model_validate(source.options)
    return reader.read(source)


@dataclass
class Reading:
    """Reads a source as far as its limits allow; ``limit``: which cut it off, as in `limit: 500 pages`."""

    source: Source
    number: int = 0
    size: int = 0
    limit: str | None = None

    def pages(self) -> Iterator[Page]:
        began = time.monotonic()
        for page in pages_of(self.source):
            self.limit = self._limit(time.monotonic() - began)
            if self.limit:
                return
            yield page
            self.number += 1
            self.size += len(page.body or b"")

    def _limit(self, seconds: float) -> str | None:
        limits = self.source.limits
        if self.number >= limits.pages:
            return f"limit: {limits.pages} pages"
        if self.size >= limits.bytes:
            return f"limit: {limits.bytes} bytes"
        return f"limit: {limits.seconds} seconds" if seconds >= limits.seconds else None


def cut(source: Source) -> str | None:
    limits = source.limits
    if source.reader is None or min(limits.pages, limits.bytes) >= UNLIMITED:
        return None
    reading = Reading(source)
    for _ in reading.pages():
        pass
    return reading.limit
