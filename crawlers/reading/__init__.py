"""Readers: files instead of sites, one kind a file. A reader yields pages and knows no Scrapy."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from crawlers.items import Page
from crawlers.reading import beir, folder, jsonl, pdf, table, text, warc
from warehouse.source import Source

Reader = Callable[[Source], Iterator[Page]]

READERS: dict[str, Reader] = {
    "beir": beir.read,
    "folder": folder.read,
    "html": folder.read_html,
    "jsonl": jsonl.read,
    "pdf": pdf.read,
    "table": table.read,
    "text": text.read,
    "warc": warc.read,
}
