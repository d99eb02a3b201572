"""Scrapy settings: polite by default. The constants serve `scrapy crawl`, `settings_for` a source's crawl."""

from __future__ import annotations

from typing import Any

from scrapy.settings import default_settings

from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.source import Source

AGENT = "rag-assay/0.1"

BOT_NAME = "rag-assay"
SPIDER_MODULES = ["rag_assay.crawlers.spiders"]
NEWSPIDER_MODULE = "rag_assay.crawlers.spiders"
MIRROR = ""  # base URL of the loopback server that answers for the sample hosts
ALLOW_PRIVATE = False  # connect to addresses that are not public
TWISTED_DNS_RESOLVER = "rag_assay.crawlers.download_handlers.GuardedResolver"
_HTTP = "rag_assay.crawlers.download_handlers.GuardedHandler"
DOWNLOAD_HANDLERS = {"http": _HTTP, "https": _HTTP, "file": None, "ftp": None, "s3": None, "data": None}
HTTPPROXY_ENABLED = False  # a proxy would connect where the resolver cannot look

USER_AGENT = AGENT
ROBOTSTXT_OBEY = True
ROBOTSTXT_USER_AGENT = "rag-assay"
REFERRER_POLICY = "same-origin"
DEFAULT_REQUEST_HEADERS = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}

DOWNLOAD_DELAY = 0.7
DOWNLOAD_DELAY_JITTER = 0  # the delay is a promise, not a mean
CONCURRENT_REQUESTS = 8
CONCURRENT_REQUESTS_PER_DOMAIN = 1
CONCURRENT_ITEMS = 1  # a response is one page at most; Scrapy starts so many tasks for each response
AUTOTHROTTLE_ENABLED = True
AUTOTHROTTLE_START_DELAY = DOWNLOAD_DELAY
AUTOTHROTTLE_MAX_DELAY = 60
AUTOTHROTTLE_TARGET_CONCURRENCY = 1.0

DOWNLOAD_TIMEOUT = 30
DOWNLOAD_MAXSIZE = 20_000_000
DOWNLOAD_WARNSIZE = 0
DOWNLOAD_VERIFY_CERTIFICATES = True
RETRY_TIMES = 2
RETRY_GIVE_UP_LOG_LEVEL = "INFO"  # the failure is stored with its reason
REDIRECT_MAX_TIMES = 10
METAREFRESH_ENABLED = False

# Breadth first: pages near the start come before deep ones, so that a limit cuts off the far ones.
DEPTH_PRIORITY = 1
SCHEDULER_MEMORY_QUEUE = "scrapy.squeues.FifoMemoryQueue"
SCHEDULER_DISK_QUEUE = SCHEDULER_MEMORY_QUEUE

# Without pickle: a crawl is resumed from what is stored, so that a job folder (JOBDIR) need not hold it.
DUPEFILTER_CLASS = "rag_assay.crawlers.middlewares.SeenInThisCrawl"

# Scrapy imports what is switched off, too: cookies alone load `requests`, remote control `aiohttp`.
_UNUSED = ("cookies.CookiesMiddleware", "remote_control.RemoteControl", "telnet.TelnetConsole")
DOWNLOADER_MIDDLEWARES_BASE, EXTENSIONS_BASE = (
    {name: order for name, order in base.items() if not name.endswith(_UNUSED)}
    for base in (default_settings.DOWNLOADER_MIDDLEWARES_BASE, default_settings.EXTENSIONS_BASE)
)
DOWNLOADER_MIDDLEWARES = {
    "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware": None,
    "rag_assay.crawlers.middlewares.RobotsMiddleware": 100,
    "scrapy.downloadermiddlewares.httpcompression.HttpCompressionMiddleware": None,
    "rag_assay.crawlers.spiders.base.WholeBodiesMiddleware": 590,
    "rag_assay.crawlers.middlewares.RevalidateMiddleware": 620,
    "rag_assay.crawlers.middlewares.RedirectBoundsMiddleware": 610,
    "rag_assay.crawlers.middlewares.BackOffMiddleware": 560,  # before a retry is made of the answer
    "rag_assay.crawlers.rendering.RenderMiddleware": 540,  # once a page is whole
    "rag_assay.crawlers.login.LoginMiddleware": 950,  # next to the network
}
EXTENSIONS = {
    "scrapy.extensions.spiderstate.SpiderState": None,
    "rag_assay.crawlers.middlewares.CrawlExtension": 100,
}
ITEM_PIPELINES = {"rag_assay.crawlers.pipelines.StorePipeline": 100}
LOG_LEVEL = "INFO"
LOG_FILE_APPEND = False
STATS_DUMP = True


def source_settings(source: Source) -> dict[str, Any]:
    polite = source.delay > 0
    return {
        "USER_AGENT": f"{AGENT} (+{source.contact})" if source.contact else AGENT,
        "DOWNLOAD_DELAY": source.delay,
        "AUTOTHROTTLE_ENABLED": polite,
        "AUTOTHROTTLE_START_DELAY": source.delay,
        "CONCURRENT_REQUESTS": min(CONCURRENT_REQUESTS, len(source.hosts)) if polite else CONCURRENT_REQUESTS,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 1 if polite else CONCURRENT_REQUESTS,
        "DOWNLOAD_MAXSIZE": source.limits.page_bytes,
        "CLOSESPIDER_TIMEOUT": source.limits.seconds,
    }


def settings_for(source: Source, name: str, home: Home, timeout: float = DOWNLOAD_TIMEOUT) -> dict[str, Any]:
    defaults = {key: value for key, value in globals().items() if key.isupper() and not key.startswith("_")}
    return {
        **defaults,
        **source_settings(source),
        "ALLOW_PRIVATE": source.allow_private,
        "HTTPPROXY_ENABLED": source.allow_private,
        "DOWNLOAD_TIMEOUT": timeout,
        "LOG_FILE": str(home.crawls / name / "crawl.log"),
    }
