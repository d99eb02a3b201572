"""robots.txt that cannot be read: nothing is asked for, and the reason says so (RFC 9309)."""

import pytest

from tests.fakes.crawling import crawling
from tests.fakes.site import Reply, article, index, serving

FORBIDS_A = "User-agent: *\nDisallow: /a\n"


@pytest.fixture
def site():
    with serving() as site:
        site["/"] = Reply(index("/a", "/b"))
        for path in ("/a", "/b"):
            site[path] = Reply(article(path))
        site["/robots/main.txt"] = Reply(FORBIDS_A, "text/plain")
        yield site


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply("oops", status=503), "robots.txt: status 503"),
        (Reply("slower", status=429), "robots.txt: status 429"),
        (Reply(status=301, headers={"Location": "http://other.example/robots.txt"}),
         "robots.txt: redirects to another host: other.example"),
        (Reply(FORBIDS_A + "#\n" * 2_500_000, "text/plain"), "robots.txt: larger than 5000000 bytes"),
    ],
    ids=["503", "429", "other host", "too large"],
)  # fmt: skip
def test_a_host_whose_robots_txt_cannot_be_read_is_left_alone(site, tmp_path, reply, reason):
    site["/robots.txt"] = reply
    row = crawling(tmp_path, spider="news", start=[site.url("/")]).run()
    assert site.paths() == []
    assert row["failed"] == {reason: 1}


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply("oops", status=503), "robots.txt: status 503"),
        (Reply("User-agent: *\nDisallow: /", "text/plain"), "robots.txt forbids it"),
        (Reply("User-agent: *\nDisallow: /$", "text/plain"), "robots.txt forbids it"),
    ],
    ids=["503", "all forbidden", "the start forbidden"],
)
def test_a_crawl_again_that_may_not_begin_says_so_and_keeps_what_is_stored(site, tmp_path, reply, reason):
    source = crawling(tmp_path, spider="news", start=[site.url("/")])
    source.run()
    site["/robots.txt"] = reply
    row = source.run()
    assert (row["outcome"], row["failed"]) == (f"no start page: {reason}", {reason: 1})
    assert f"no start page: {reason}" in row["stdout"]
    assert {url for url, page in source.pages().items() if page["sha256"]} == {site.url("/a"), site.url("/b")}
    site.replies.pop("/robots.txt")
    assert source.run()["outcome"] == "finished"


@pytest.mark.parametrize(
    ("reply", "asked"),
    [
        (Reply("User-agent: *\nDisallow: /", status=404), ["/", "/a", "/b"]),  # a page of errors has no rules
        (Reply(status=301, headers={"Location": "/robots/main.txt"}), ["/", "/b", "/robots/main.txt"]),
        (Reply(FORBIDS_A + "#\n" * 2_000_000, "text/plain"), ["/", "/b"]),
        (Reply(FORBIDS_A, "image/png"), ["/", "/b"]),
    ],
    ids=["404", "moved", "large", "of another type"],
)
def test_one_that_can_be_read_is_obeyed(site, tmp_path, reply, asked):
    site["/robots.txt"] = reply
    source = crawling(
        tmp_path, spider="news", start=[site.url("/")], allow=["/[ab]$"], limits={"page_bytes": 2000}
    )
    source.run()
    assert sorted(site.paths()) == asked
