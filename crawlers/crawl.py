"""Runs one crawl of one source in this process, by a spider or a reader."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any
from urllib.request import getproxies

from rag_assay.crawlers.store import FINISHED, STOPPED, PageStore, Row
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.pages import NOT_BEGUN
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.source import Source
from rag_assay.warehouse.source_kinds import SPIDERS

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

Progress = Callable[[str], None]


def crawl(home: Home, name: str, source: Source, progress: Progress, timeout: float = 30) -> Row:
    """Return the crawl's row; once a process. timeout: seconds. LockedError: another crawls it."""
    if source.reader:
        return _read(home, name, source)
    return _scrape(home, name, source, progress, timeout)


def _read(home: Home, name: str, source: Source) -> Row:
    from rag_assay.crawlers.readers import Reading

    reading = Reading(source)
    with PageStore(home, name, source.origin, from_files=True) as store:
        for page in reading.pages():
            store.add(page)
        return store.finish(reading.limit or FINISHED, reading.number, reading.size)


def _scrape(home: Home, name: str, source: Source, progress: Progress, timeout: float) -> Row:
    from scrapy.crawler import AsyncCrawlerProcess

    from rag_assay.crawlers.download_handlers import check_mirrored, settings_of
    from rag_assay.crawlers.login import Credentials
    from rag_assay.crawlers.settings import settings_for

    Credentials(source)  # fails before the first request if something is missing
    if source.mirror:
        check_mirrored(source.start)
    with PageStore(home, name, source.origin) as store, _mirror(source) as base:
        settings = settings_for(source, name, home, timeout) | (settings_of(base) if base else {})
        process = AsyncCrawlerProcess(settings)
        _warnings_to_stderr()
        if getproxies().keys() & {"http", "https"} and not (source.allow_private or source.mirror):
            logger.warning("The proxy of the environment is not used: only `allow_private: true` allows it.")
        crawler = process.create_crawler(SPIDERS[source.spider or ""])
        process.crawl(crawler, source=source, store=store, progress=progress)
        process.start()
        spider = crawler.spider
        if spider is None or not crawler.stats.get_value("finish_reason"):
            log = settings["LOG_FILE"]
            raise AssayError(f"The crawl of `{name}` did not finish; {log} says why.")
        if spider.broken is not None:
            raise spider.broken
        return close(store, crawler, crawler.stats.get_value("finish_reason"))


def close(store: PageStore, crawler: Crawler, reason: str) -> Row:
    spider, stats = crawler.spider, crawler.stats
    ending = _ending(reason, spider.source, spider.too_deep)
    counts = store.counts()
    nothing = not (counts["new"] or counts["changed"] or counts["unchanged"])
    if ending == FINISHED and nothing and len(spider.missed_start) == len(set(spider.source.start)):
        ending = f"{NOT_BEGUN}{', '.join(sorted(set(spider.missed_start.values())))}"
    return store.finish(
        ending if spider.broken is None else f"error: {type(spider.broken).__name__}",
        stats.get_value("downloader/request_count", 0),
        stats.get_value("downloader/response_bytes", 0),
        followed=spider.followed,
    )


def _mirror(source: Source) -> Any:
    if source.mirror is None:
        return nullcontext("")
    from rag_assay.crawlers.sample_site.server import serve

    return serve(port=0)


def _ending(reason: str, source: Source, too_deep: int) -> str:
    if reason == "finished" and too_deep:
        return f"limit: depth {source.limits.depth}"
    return {"closespider_timeout": f"limit: {source.limits.seconds} seconds", "shutdown": STOPPED}.get(
        reason, reason
    )


def summary(row: dict[str, Any]) -> str:
    failed: dict[str, int] = json.loads(row["failed"])
    reasons = ", ".join(f"{count} {reason}" for reason, count in failed.items())
    gone = f"{row['gone']} gone, " if row["gone"] else ""
    followed = f"{row['followed']} read but not stored, " if row.get("followed") else ""
    unmet = f"{row['unmet']} not met again, " if row.get("unmet") else ""
    return (
        f"{row['source']}: {row['outcome']}; {row['new']} new, {row['changed']} changed, "
        f"{row['unchanged']} unchanged, {gone}{followed}{unmet}"
        f"{sum(failed.values())} failed{f' ({reasons})' if failed else ''}; "
        f"{row['requests']} requests, {row['bytes']} bytes"
    )


class _OneLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return f"{record.levelname}: {record.getMessage()}"


def _warnings_to_stderr() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setLevel(logging.WARNING)
    handler.setFormatter(_OneLine())
    logging.getLogger().addHandler(handler)
    # What these warn of is stored page by page, as a reason.
    for name in ("scrapy.core.downloader.handlers.http11", "scrapy.downloadermiddlewares.httpcompression"):
        logging.getLogger(name).setLevel(logging.ERROR)
