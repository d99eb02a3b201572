"""Stores the pages of a spider and reports progress."""

from __future__ import annotations

import time
from dataclasses import fields
from typing import Any

from scrapy import signals
from scrapy.crawler import Crawler

from rag_assay.crawlers.crawl import close, summary
from rag_assay.crawlers.items import Page
from rag_assay.crawlers.login import OfCrawler
from rag_assay.crawlers.spiders.base import spider_of
from rag_assay.crawlers.store import PageStore
from rag_assay.warehouse.paths import home

PROGRESS_SECONDS = 10


class StorePipeline(OfCrawler):
    """Stores each page as it comes. Under `scrapy crawl`, which gives no store, it opens one of its own."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._reported_at = time.monotonic()
        crawler.signals.connect(self.spider_closed, signals.spider_closed)

    def open_spider(self) -> None:
        spider = spider_of(self.crawler)
        if spider is not None and spider.store is None:
            spider.store = spider.store_to_close = PageStore(home(), spider.name, spider.source.origin)

    def process_item(self, item: Any) -> Any:
        if isinstance(item, Page):
            spider = self.crawler.spider
            try:
                spider.store.add(item)
            except Exception as error:
                # A page that cannot be stored ends the crawl: Scrapy would go on without it
                spider.broken = error
                raise
            if time.monotonic() - self._reported_at >= PROGRESS_SECONDS:
                self._reported_at = time.monotonic()
                spider.progress(", ".join(f"{count} {name}" for name, count in spider.store.counts().items()))
            return {part.name: getattr(item, part.name) for part in fields(item) if part.name != "body"}
        return item

    def spider_closed(self, reason: str) -> None:
        spider = spider_of(self.crawler)
        if spider is not None and spider.store_to_close is not None:
            spider.progress(summary(close(spider.store_to_close, self.crawler, reason)))
