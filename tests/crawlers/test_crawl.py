"""One crawl over real HTTP: whatever a site answers ends as a stored page or a failed one with a reason."""

import pytest

from rag_assay.warehouse.pages import decode, read_body
from tests.fakes.crawling import crawling
from tests.fakes.site import Reply, article, index, serving

PNG = b"\x89PNG\r\n\x1a\n" + bytes(200_000)
LIMIT = 100_000


@pytest.fixture(scope="module")
def crawl(tmp_path_factory):
    with serving() as site:
        links = [
            "/good", "/good#part", "/moved", "/gone", "/latin", "/mislabelled", "/picture", "/photo.png",
            "/big", "/bigger", "/slow", "/secret/page", "/away", "/loop", "/empty", "/print?of=good",
            "/later", "/accepted", "/plain.txt", "http://elsewhere.example/x", "mailto:a@b.example",
            "javascript:void(0)", "http://[broken",
        ]  # fmt: skip
        site["/"] = Reply(index(*links))
        site["/robots.txt"] = Reply("User-agent: *\nDisallow: /secret/", "text/plain")
        site["/good"] = Reply(article("Good"))
        site["/moved"] = Reply(status=301, headers={"Location": "/target"})
        site["/target"] = Reply(article("Target", "/good"))
        site["/latin"] = Reply(article("Fußball in Köln").encode("cp1252"))
        site["/mislabelled"] = Reply(article("Fußball in Köln"), "text/html; charset=iso-8859-1")
        site["/picture"] = Reply(PNG, "image/png")
        site["/big"] = Reply(article("Big", text="x" * LIMIT))
        site["/bigger"] = Reply(article("Bigger", text="x" * LIMIT), unsized=True)
        site["/slow"] = Reply(article("Slow"), seconds=8)
        site["/away"] = Reply(status=302, headers={"Location": "http://elsewhere.example/y"})
        site["/loop"] = Reply(status=302, headers={"Location": "/loop?again"})
        site["/loop?again"] = Reply(status=302, headers={"Location": "/loop?and-again"})
        site["/loop?and-again"] = Reply(status=404)
        site["/empty"] = Reply("")
        site["/print?of=good"] = Reply(
            article("Good", text="printed", head='<link rel="canonical" href="/good">')
        )
        canonical = '<link rel="canonical" href="{}">'
        site["/later"] = Reply(article("Later", head=canonical.format("http://elsewhere.example/later")))
        site["/accepted"] = Reply(article("Wait"), status=202)
        site["/plain.txt"] = Reply("no article", "text/plain")
        source = crawling(
            tmp_path_factory.mktemp("crawl"),
            spider="news",
            start=[site.url("/")],
            limits={"page_bytes": LIMIT},
        )
        row = source.run("--timeout", "3")
        pages = {url.removeprefix(site.base): page for url, page in source.pages().items()}
        yield site, row, pages, source.home


def test_what_became_of_every_link(crawl):
    _, row, pages, _ = crawl
    reasons = {path: page["reason"] for path, page in pages.items()}
    assert reasons == {
        "/good": None,
        "/target": None,
        "/latin": None,
        "/mislabelled": None,
        "/later": None,
        "/gone": "status 404",
        "/picture": "not text: image/png",
        "/photo.png": "not text: image/png",
        "/big": f"larger than {LIMIT} bytes",
        "/bigger": f"larger than {LIMIT} bytes",
        "/slow": "timeout",
        "/secret/page": "robots.txt forbids it",
        "/away": "redirects to another host: elsewhere.example",
        "/loop?and-again": "status 404",
        "/empty": "empty answer",
        "/accepted": "status 202",
    }
    assert (row["outcome"], row["new"]) == ("finished", 5)
    assert sum(row["failed"].values()) == 11
    assert row["failed"]["status 404"] == 2


def test_a_page_is_asked_for_once_and_a_refused_one_never(crawl):
    site, _, _, _ = crawl
    paths = site.paths()
    assert paths.count("/good") == 1
    assert paths.count("/slow") == 3  # a timeout is tried twice more
    assert not {"/photo.png", "/secret/page"} & set(paths)


def test_redirects_are_stored_under_their_end(crawl):
    site, _, pages, _ = crawl
    assert pages["/target"]["requested_url"] == site.url("/moved")


def test_bytes_are_stored_as_served_and_the_decoding_is_noted(crawl):
    _, _, pages, home = crawl
    for path, encoding in (("/latin", "cp1252"), ("/mislabelled", "utf-8")):
        body = read_body(home, pages[path]["sha256"])
        assert body == article("Fußball in Köln").encode(encoding)
        assert pages[path]["fields"]["encoding"] == encoding
        assert pages[path]["fields"]["headline"] == "Fußball in Köln"
        assert decode(body, pages[path]["content_type"]) == (article("Fußball in Köln"), encoding)


def test_a_canonical_url_counts_on_its_own_host_only(crawl):
    _, _, pages, home = crawl
    assert b"printed" not in read_body(home, pages["/good"]["sha256"])
    assert pages["/later"]["sha256"]


def test_requests_and_bytes_are_counted_without_the_bodies_of_pictures(crawl):
    _, row, _, _ = crawl
    assert row["requests"] == len(crawl[0].asked)
    assert row["bytes"] < len(PNG)


def test_failed_pages_are_no_warnings(crawl):
    _, row, _, home = crawl
    assert row["stderr"] == ""
    assert "Spider closed (finished)" in (home.crawls / "site" / "crawl.log").read_text()
    told = "site: finished; 5 new, 0 changed, 0 unchanged, 2 read but not stored, 11 failed ("
    assert row["stdout"].startswith(told)


def test_a_site_that_is_not_there(tmp_path):
    with serving() as site:
        url = site.url("/")
    row = crawling(tmp_path, spider="blog", start=[url]).run()
    refused = "connection refused"
    assert (row["outcome"], row["failed"]) == (f"no start page: {refused}", {refused: 1})
    assert row["stderr"].count("\n") == 1, "a line about robots.txt, and no traceback"
