"""A second crawl asks whether pages changed, and keeps what it has."""

from pathlib import Path

from tests.fakes.crawling import crawling
from tests.fakes.site import Reply, article, index, serving
from warehouse.pages import manifest_digest, read_body, read_crawls, read_manifest


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
    assert (
        "If-None-Match" not in asked["/"].headers
    )  # index pages are not stored, so they are asked for whole
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
    # /linked-from-a is no longer linked: it was not asked for, and is still there
    assert (row["new"], row["changed"], row["unchanged"]) == (0, 1, 1)
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
    assert row["failed"] == {"status 410": 1}
    assert pages[site.url("/a")]["reason"] is None
    assert read_body(source.home, pages[site.url("/a")]["sha256"]) == article("A", "/linked-from-a").encode()
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
