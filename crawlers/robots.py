"""robots.txt by RFC 9309: a site whose robots.txt cannot be read is not crawled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scrapy import Request
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.robotstxt import RobotParser

from rag_assay.crawlers.reasons import is_unreachable, reason_of
from rag_assay.crawlers.spiders.base import spider_of
from rag_assay.crawlers.spiders.discovery import sitemaps_in

READ_BYTES = 512 * 1024  # RFC 9309, 2.5: a crawler reads 500 KiB at least
MOST_BYTES = 5_000_000


@dataclass(frozen=True)
class Unread:
    """Stands for the rules of a host whose robots.txt could not be read."""

    reason: str


def is_robots(request: Request) -> bool:
    """Return whether a request is one for robots.txt that this middleware makes."""
    return bool(request.meta.get("dont_obey_robotstxt"))


class RobotsMiddleware(RobotsTxtMiddleware):
    """Obeys robots.txt.

    A host without one (status 4xx) allows all. One that answers 429 or 5xx, too late, too much or from
    another host allows nothing, and its pages fail with that reason. A host that is not there, or whose
    address is refused, fails by itself.
    """

    def process_request_2(self, rp: RobotParser | Unread | None, request: Request) -> None:
        """Raise `IgnoreRequest` for a page that must not be asked for."""
        if isinstance(rp, Unread):
            raise IgnoreRequest(rp.reason)
        super().process_request_2(rp, request)

    async def _parse_robots(self, response: Response, netloc: str, request: Request) -> None:
        if response.status == 429 or response.status >= 500:
            self._leave(netloc, Unread(f"robots.txt: status {response.status}"))
            return
        body = response.body if response.status == 200 else b""
        if len(body) > READ_BYTES:
            body = body[:READ_BYTES].rpartition(b"\n")[0]
        if spider := spider_of(self.crawler):
            spider.sitemaps[netloc] = sitemaps_in(body, response.url)
        await super()._parse_robots(response.replace(body=body), netloc, request)

    def _robots_error(self, exc: Exception, netloc: str) -> None:
        if is_unreachable(exc):
            super()._robots_error(exc, netloc)
        else:
            self._leave(netloc, Unread(f"robots.txt: {reason_of(exc, MOST_BYTES)}"))

    def _leave(self, netloc: str, unread: Unread) -> None:
        waiting: Any = self._parsers[netloc]
        self._parsers[netloc] = unread
        waiting.callback(unread)
