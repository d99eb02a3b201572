"""A second crawl asks whether pages changed, and keeps what it has."""

from pathlib import Path

import polars as pl
import pytest

from rag_assay.warehouse.pages import manifest_digest, read_body, read_crawls, read_manifest
from tests.fakes.crawling import crawling
from tests.fakes.site import Reply, article, index, serving

GONE = pl.col("gone_at").is_not_null()


def build(site, folder: Path):
    site["/"] = Reply(index("/a", "/b"), etag='"index"')
    site["/a"] = Reply(article("A", "/linked-from-a"), etag='"a1"')
    site["/b"] = Reply(article("B"), headers={"Last-Modified": "Mon, 02 Jan 2023 10:00:00 GMT"})
    site["/linked-from-a"] = Reply(article("C"), etag='"c1"')
    return crawling(folder, spider="news", start=[site.url("/")])


def test_nothing_changed_so_no_body_is_downloaded_and_links_are_followed_all_the_same(tmp_path):
    with serving() as site:
        source = build(site, tmp_path)
        first = source.run()
        before = read_manifest(source.home, source.name)
        site.forget()
        second = source.run()
        asked = {one.path: one for one in site.asked}
    assert (first["new"], second["new"], second["changed"], second["unchanged"]) == (3, 0, 0, 3)
    assert asked["/a"].headers["If-None-Match"] == '"a1"'
    assert asked["/a"].sent == 0
    assert asked["/linked-from-a"].sent == 0  # reached through the stored body of /a
    assert asked["/b"].headers["If-Modified-Since"] == "Mon, 02 Jan 2023 10:00:00 GMT"
    assert asked["/"].sent == 0  # nor is an index page, which holds nothing to store, downloaded again
    after = read_manifest(source.home, source.name)
    assert manifest_digest(after) == manifest_digest(before)
    assert (after["fetched_at"] > before["fetched_at"]).all()
    assert after["etag"].to_list() == before["etag"].to_list()
    assert read_crawls(source.home, source.name)["unchanged"].to_list() == [0, 3]


def test_a_changed_page_is_stored_and_its_old_body_stays(tmp_path):
    with serving() as site:
        source = build(site, tmp_path)
        source.run()
        old = source.pages()[site.url("/a")]
        version = manifest_digest(read_manifest(source.home, source.name))
        site["/a"] = Reply(article("A, corrected"), etag='"a2"')
        row = source.run()
        new = source.pages()[site.url("/a")]
    # /linked-from-a is no longer linked: it was asked for all the same, and is still there
    assert (row["new"], row["changed"], row["unchanged"], row["gone"]) == (0, 1, 2, 0)
    assert len(source.pages()) == 3
    assert new["fields"]["headline"] == "A, corrected"
    assert read_body(source.home, old["sha256"]) == article("A", "/linked-from-a").encode()
    assert manifest_digest(read_manifest(source.home, source.name)) != version


def test_a_failure_takes_no_page_away_and_ends_when_the_page_answers(tmp_path):
    with serving() as site:
        source = build(site, tmp_path)
        site["/"] = Reply(index("/a", "/b", "/more"))
        source.run()
        assert source.pages()[site.url("/more")]["reason"] == "status 404"
        site["/a"] = Reply("gone", status=410)
        site["/more"] = Reply(index("/a"))
        row = source.run()
        pages = source.pages()
        kept = read_manifest(source.home, source.name, gone=True).row(by_predicate=GONE, named=True)
    assert (row["failed"], row["gone"]) == ({}, 1)
    assert "1 gone, 2 read but not stored, 0 failed" in row["stdout"]
    assert site.url("/a") not in pages
    assert kept["url"] == site.url("/a")
    assert read_body(source.home, kept["sha256"]) == article("A", "/linked-from-a").encode()
    assert site.url("/more") not in pages  # an index page that answers now is no failed page any more


def test_a_damaged_body_is_fetched_again(tmp_path):
    with serving() as site:
        source = build(site, tmp_path)
        source.run()
        sha256 = source.pages()[site.url("/a")]["sha256"]
        source.home.body(sha256).write_bytes(b"torn")
        site.forget()
        row = source.run()
        sent = [one.sent for one in site.asked if one.path == "/a"]
    assert sent == [0, len(article("A", "/linked-from-a"))]  # 304, and then without a condition
    assert row["unchanged"] == 3
    assert read_body(source.home, sha256) == article("A", "/linked-from-a").encode()


def test_a_page_that_nothing_links_to_is_asked_for_and_gone_by_its_own_answer(tmp_path):
    with serving() as site:
        source = build(site, tmp_path)
        source.run()
        version = manifest_digest(read_manifest(source.home, source.name))
        site["/"] = Reply(index("/b"))
        site["/linked-from-a"] = Reply("gone", status=404)
        site.forget()
        row = source.run()
        asked = {one.path: one for one in site.asked}
        assert asked["/a"].sent == 0  # 304: it is there
        assert (row["unchanged"], row["gone"], row["failed"], row["outcome"]) == (2, 1, {}, "finished")
        assert set(source.pages()) == {site.url("/a"), site.url("/b")}
        assert manifest_digest(read_manifest(source.home, source.name)) != version
        assert read_crawls(source.home, source.name)["gone"].to_list() == [0, 1]

        site["/"] = Reply(index("/b", "/linked-from-a"))
        again = source.run()
        assert (again["gone"], again["failed"]) == (0, {"status 404": 1})  # a link to a page long gone
        site["/linked-from-a"] = Reply(article("C"), etag='"c1"')
        back = source.run()
    assert back["new"] == 1
    assert manifest_digest(read_manifest(source.home, source.name)) == version


def test_a_page_stored_under_its_canonical_url_is_asked_for_where_it_was_found(tmp_path):
    head = '<link rel="canonical" href="/story">'
    with serving() as site:
        site["/"] = Reply(index("/print?1"))
        site["/print?1"] = Reply(article("Story", head=head))  # nobody answers under /story
        source = crawling(tmp_path, spider="news", start=[site.url("/")])
        source.run()
        site["/"] = Reply(index())
        still = source.run()
        assert (still["unchanged"], still["gone"], still["failed"]) == (1, 0, {})
        site.replies.pop("/print?1")
        row = source.run()
    assert (row["gone"], row["failed"]) == (1, {})
    assert source.pages() == {}


def test_pages_of_a_host_that_is_down_do_not_go(tmp_path):
    with serving() as site:
        source = build(site, tmp_path)
        source.run()
    row = source.run()
    assert (row["gone"], row["failed"]) == (0, {"connection refused": 1})
    assert len([page for page in source.pages().values() if page["sha256"]]) == 3


def test_pages_that_the_source_does_not_want_any_longer_go(tmp_path):
    with serving() as site:
        source = build(site, tmp_path)
        source.run()
        fewer = crawling(tmp_path, spider="news", start=[site.url("/")], deny=["/b$"])
        row = fewer.run()
    assert row["gone"] == 1
    assert set(fewer.pages()) == {site.url("/a"), site.url("/linked-from-a")}


@pytest.mark.parametrize(("status", "gone"), [(301, 1), (308, 1), (302, 0), (307, 0)])
def test_a_page_that_moved_for_good_is_stored_once(tmp_path, status, gone):
    with serving() as site:
        source = build(site, tmp_path)
        source.run()
        site["/a"] = Reply(status=status, headers={"Location": "/new"})
        site["/new"] = Reply(article("A", "/linked-from-a"))
        row = source.run()
    assert (row["new"], row["unchanged"], row["gone"], row["failed"]) == (1, 2, gone, {})
    assert (site.url("/a") in source.pages()) == (gone == 0)
    assert site.url("/new") in source.pages()


def test_every_stored_page_is_counted_whatever_became_of_it(tmp_path):
    paths = [f"/{name}" for name in ("same", "new-words", "fails", "gone", "moved", "for-now")]
    with serving() as site:
        site["/"] = Reply(index(*paths))
        for path in paths:
            site[path] = Reply(article(path))
        source = crawling(tmp_path, spider="news", start=[site.url("/")])
        stored = source.run()["new"]
        site["/new-words"] = Reply(article("Others"))
        site["/fails"] = Reply("busy", status=500)
        site["/gone"] = Reply("", status=410)
        site["/moved"] = Reply(status=301, headers={"Location": "/same"})
        site["/for-now"] = Reply(status=302, headers={"Location": "/same"})
        row = source.run()
    counted = row["new"] + row["changed"] + row["unchanged"] + row["gone"] + sum(row["failed"].values())
    assert (stored, counted) == (6, 5)
    assert " 1 not met again, " in row["stdout"]
    assert source.pages()[site.url("/for-now")]["sha256"], "it may be served there again"
