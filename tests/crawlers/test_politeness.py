"""What a site sees of a crawl: its pace, its name, and that it heeds robots.txt."""

from itertools import pairwise

import pytest

from tests.fakes.crawling import crawling
from tests.fakes.site import Reply, article, index, serving


@pytest.fixture
def site():
    with serving() as site:
        site["/"] = Reply(index("/a", "/b", "/c"), headers={"Set-Cookie": "id=7"})
        for path in ("/a", "/b", "/c"):
            site[path] = Reply(article(path))
        yield site


def gaps(site):
    """Seconds between requests, robots.txt included."""
    times = [one.at for one in site.asked]
    return [later - earlier for earlier, later in pairwise(times)]


def test_the_delay_lies_between_any_two_requests(site, tmp_path):
    crawling(tmp_path, spider="news", start=[site.url("/")], delay=0.3).run()
    assert len(site.asked) == 5
    assert min(gaps(site)) >= 0.29


def test_a_longer_crawl_delay_of_robots_txt_is_kept_to(site, tmp_path):
    site["/robots.txt"] = Reply("User-agent: rag-assay\nCrawl-delay: 0.5", "text/plain")
    crawling(tmp_path, spider="news", start=[site.url("/")], delay=0.1).run()
    assert min(gaps(site)[1:]) >= 0.49


def test_a_longer_crawl_delay_counts_without_a_delay_too(site, tmp_path):
    site["/robots.txt"] = Reply("User-agent: *\nCrawl-delay: 0.4", "text/plain")
    crawling(tmp_path, spider="news", start=[site.url("/")]).run()
    assert min(gaps(site)[1:]) >= 0.39


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
    site.once["/b"] = Reply("later", status=status, headers={"Retry-After": "1"})
    row = crawling(tmp_path, spider="news", start=[site.url("/")], delay=0.05).run()
    first, second = (one.at for one in site.asked if one.path == "/b")
    assert second - first >= 0.95
    assert (row["new"], row["failed"]) == (3, {})


def test_a_server_that_stays_in_trouble_is_asked_three_times(site, tmp_path):
    site["/b"] = Reply("trouble", status=500)
    row = crawling(tmp_path, spider="news", start=[site.url("/")]).run()
    assert site.paths().count("/b") == 3
    assert row["failed"] == {"status 500": 1}
