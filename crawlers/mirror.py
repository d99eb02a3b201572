"""Sends requests for the sample sites' hosts to the server on loopback."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from scrapy import Request
from scrapy.core.downloader.handlers.http11 import HTTP11DownloadHandler
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response

from rag_assay.warehouse.errors import InputError

SAMPLE_SITES = Path(__file__).parent / "sample_site"
SAMPLE_DOMAIN = "sample.example"


class MirrorHandler(HTTP11DownloadHandler):
    """Sends requests for the sample hosts to a loopback server, at the last moment before the network.

    `https://energy.sample.example/a?b` is asked from `BASE/energy.sample.example/a?b`; spiders, duplicate
    filter, offsite filter and robots.txt see the canonical URL only. Other hosts are refused.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._base: str = crawler.settings["MIRROR"].rstrip("/")

    async def download_request(self, request: Request) -> Response:
        """Download from the mirror; the response bears the URL that was asked for."""
        mirrored = request.replace(url=mirrored_url(self._base, request.url))
        response = await super().download_request(mirrored)
        request.meta.update(mirrored.meta)  # the download latency, which AutoThrottle reads
        return response.replace(url=request.url)


def mirrored_url(base: str, url: str) -> str:
    """Return where the mirror at ``base`` answers for ``url``; raise `IgnoreRequest` for other hosts.

    >>> mirrored_url("http://127.0.0.1:8000", "https://blog.sample.example/page/2/?a=b")
    'http://127.0.0.1:8000/blog.sample.example/page/2/?a=b'
    """
    parts = urlsplit(url)
    if not is_mirrored(url):
        raise IgnoreRequest(f"not a host of the sample site: {parts.hostname}")
    return base + urlunsplit(("", "", f"/{parts.hostname}{parts.path or '/'}", parts.query, ""))


def is_mirrored(url: str) -> bool:
    """Return whether a URL lies on one of the sample sites."""
    name, _, domain = (urlsplit(url).hostname or "").partition(".")
    return domain == SAMPLE_DOMAIN and (SAMPLE_SITES / name / "routes.json").is_file()


def check_mirrored(urls: tuple[str, ...]) -> None:
    """Raise `InputError` for start URLs that the sample site cannot answer."""
    bad = [url for url in urls if not is_mirrored(url)]
    if bad:
        known = sorted(f"{path.parent.name}.{SAMPLE_DOMAIN}" for path in SAMPLE_SITES.glob("*/routes.json"))
        raise InputError(
            *(
                f"start: {url} is not on the sample site, which has {', '.join(known)}. "
                "Leave out `mirror` to crawl other hosts."
                for url in bad
            )
        )


def settings_of(base: str) -> dict[str, Any]:
    """Return the Scrapy settings that send all requests to the mirror at ``base``."""
    handler = "rag_assay.crawlers.mirror.MirrorHandler"
    return {"MIRROR": base, "DOWNLOAD_HANDLERS": {"http": handler, "https": handler}}
