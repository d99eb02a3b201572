"""Readers: files instead of sites, one kind a file. A reader yields pages and knows no Scrapy."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from crawlers.items import Page
from crawlers.reading import beir, folder
from warehouse.source import Source

Reader = Callable[[Source], Iterator[Page]]

READERS: dict[str, Reader] = {"beir": beir.read, "folder": folder.read}
