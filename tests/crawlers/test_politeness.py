"""What a site sees of a crawl: its pace, its name, and that it heeds robots.txt."""

import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from types import SimpleNamespace

import pytest
from scrapy import Request
from scrapy.http import Response
from scrapy.settings import Settings

from rag_assay.crawlers.middlewares import BackOffMiddleware
from rag_assay.crawlers.settings import settings_for
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.source import Source
from tests.fakes.crawling import crawling
from tests.fakes.site import Reply, article, index, serving


@pytest.fixture
def site():
    with serving() as site:
        site["/"] = Reply(index("/a", "/b", "/c"), headers={"Set-Cookie": "id=7"})
        for path in ("/a", "/b", "/c"):
            site[path] = Reply(article(path))
        yield site


def span(requests):
    """Seconds from the first to the last of some requests.

    The site notes a request when its thread gets to run. On a busy machine that is late by any time, for one
    request or the other, so one gap proves nothing; the sum is short of the truth by the first delay at most.
    """
    return requests[-1].at - requests[0].at


def test_the_delay_lies_between_any_two_requests(site, tmp_path):
    crawling(tmp_path, spider="news", start=[site.url("/")], delay=0.8).run()
    assert len(site.asked) == 5
    assert span(site.asked) >= 3 * 0.8  # four gaps


def test_a_longer_crawl_delay_of_robots_txt_is_kept_to(site, tmp_path):
    site["/robots.txt"] = Reply("User-agent: rag-assay\nCrawl-delay: 0.8", "text/plain")
    crawling(tmp_path, spider="news", start=[site.url("/")], delay=0.1).run()
    assert span(site.asked[1:]) >= 2 * 0.8  # three gaps


def test_a_longer_crawl_delay_counts_without_a_delay_too(site, tmp_path):
    site["/robots.txt"] = Reply("User-agent: *\nCrawl-delay: 0.8", "text/plain")
    crawling(tmp_path, spider="news", start=[site.url("/")]).run()
    assert span(site.asked[1:]) >= 2 * 0.8


def test_the_delay_is_no_mean_and_one_request_waits_at_a_time(tmp_path):
    source = Source.model_validate({"spider": "news", "start": ["https://a.example/"], "delay": 1.5})
    said = settings_for(source, "a", Home(tmp_path))
    assert (said["DOWNLOAD_DELAY"], said["DOWNLOAD_DELAY_JITTER"], said["CONCURRENT_REQUESTS"]) == (1.5, 0, 1)


def test_name_and_contact_are_said_and_no_cookie_comes_back(site, tmp_path):
    crawling(tmp_path, spider="news", start=[site.url("/")], contact="mail@team.example").run()
    assert {one.headers["User-Agent"] for one in site.asked} == {"rag-assay/0.1 (+mail@team.example)"}
    assert not any("Cookie" in one.headers for one in site.asked)


def test_robots_txt_is_read_for_our_name_and_a_start_url_may_be_forbidden(site, tmp_path):
    site["/robots.txt"] = Reply("User-agent: rag-assay\nDisallow: /\n\nUser-agent: *\nAllow: /", "text/plain")
    source = crawling(tmp_path, spider="news", start=[site.url("/")])
    row = source.run()
    assert site.paths() == []
    assert row["failed"] == {"robots.txt forbids it": 1}


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_waited_for(site, tmp_path, status):
    site.once["/b"] = Reply("later", status=status, headers={"Retry-After": "3"})
    row = crawling(tmp_path, spider="news", start=[site.url("/")], delay=0.05).run()
    assert span([one for one in site.asked if one.path == "/b"]) >= 2
    assert (row["new"], row["failed"]) == (3, {})


@pytest.mark.parametrize("throttled", [False, True])
def test_one_retry_after_does_not_slow_down_the_rest_of_a_crawl_without_a_delay(throttled):
    slot = SimpleNamespace(delay=0.0, concurrency=16)
    crawler = SimpleNamespace(
        settings=Settings({"AUTOTHROTTLE_ENABLED": throttled, "AUTOTHROTTLE_MAX_DELAY": 60}),
        engine=SimpleNamespace(downloader=SimpleNamespace(slots={"a.example": slot})),
    )
    request, back_off = Request("https://a.example/b"), BackOffMiddleware(crawler)

    def answer(status, **headers):
        back_off.process_response(request, Response(request.url, status=status, headers=headers))
        return slot.delay, slot.concurrency

    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)
    assert answer(429, **{"Retry-After": "30"}) == (30, 1)
    assert answer(200) == (30, 1), "it was on its way when the host refused"
    slot.delay = 0.0
    delay, _ = answer(503, **{"Retry-After": soon})
    assert 0 < delay <= 2
    time.sleep(delay)
    assert answer(404) == (delay, 1)
    assert answer(200) == ((delay, 1) if throttled else (0.0, 16)), "AutoThrottle speeds up by itself"


def test_a_server_that_stays_in_trouble_is_asked_three_times(site, tmp_path):
    site["/b"] = Reply("trouble", status=500)
    row = crawling(tmp_path, spider="news", start=[site.url("/")]).run()
    assert site.paths().count("/b") == 3
    assert row["failed"] == {"status 500": 1}
