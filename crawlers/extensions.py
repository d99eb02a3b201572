"""Scrapy extensions: refuse useless bodies early, count bytes, keep Crawl-delay."""

from __future__ import annotations

from typing import Self
from urllib.parse import urlsplit

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import StopDownload
from scrapy.extensions.throttle import AutoThrottle
from scrapy.http import Headers
from scrapy.robotstxt import RobotParser

from rag_assay.crawlers.robots import is_robots
from rag_assay.crawlers.spiders.base import spider_of
from rag_assay.warehouse.pages import media_type


class _Extension:
    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the extension of a crawl."""
        return cls(crawler)


class HeadersExtension(_Extension):
    """Stops a download at its headers where the body could not be used, so that no image is downloaded."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        crawler.signals.connect(self.headers_received, signals.headers_received)

    def headers_received(self, headers: Headers, request: Request) -> None:
        """End a download of a media type that the spider has no use for."""
        spider = spider_of(self.crawler)
        if spider is None or is_robots(request):
            return
        kind = media_type((headers.get("Content-Type") or b"").decode("latin-1"))
        if kind and not spider.is_readable(kind, request.url):
            raise StopDownload(fail=False)


class BytesExtension(_Extension):
    """Counts the bytes of all bodies as they come in, those of refused pages too."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        crawler.signals.connect(self.bytes_received, signals.bytes_received)

    def bytes_received(self, data: bytes) -> None:
        """Add a part of a body."""
        if spider := spider_of(self.crawler):
            spider.received_bytes += len(data)


class CrawlDelayExtension(_Extension):
    """Keeps to the Crawl-delay of a robots.txt where it is longer than the source's own delay."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._agent = crawler.settings["ROBOTSTXT_USER_AGENT"]
        crawler.signals.connect(self.robots_parsed, signals.robots_parsed)

    def robots_parsed(self, robotparser: RobotParser, request: Request) -> None:
        """Slow down requests to the host of ``request``."""
        wanted = robotparser.crawl_delay(self._agent)
        if not wanted or self.crawler.settings["MIRROR"]:
            return
        delay = slow_down(self.crawler, request, float(wanted))
        throttle = self.crawler.get_extension(AutoThrottle)
        if throttle is not None:
            throttle.mindelay = max(throttle.mindelay, delay)


def slow_down(crawler: Crawler, request: Request, seconds: float) -> float:
    """Ask the host of ``request`` one thing at a time, at least so many seconds apart; return how many."""
    delay = min(seconds, crawler.settings.getfloat("AUTOTHROTTLE_MAX_DELAY"))
    slot = crawler.engine.downloader.slots.get(urlsplit(request.url).hostname)
    if slot is not None and slot.delay < delay:
        slot.delay, slot.concurrency = delay, 1
    return delay
