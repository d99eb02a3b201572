"""The page store by itself: one row a URL, the best one."""

import json
import os
from dataclasses import replace

import polars as pl
import pytest

from rag_assay.crawlers.items import Page
from rag_assay.crawlers.store import Followed, PageStore
from rag_assay.warehouse.errors import CorruptFileError, LockedError
from rag_assay.warehouse.pages import manifest_digest, read_body, read_crawls, read_manifest, write_body
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import CRAWLS, PAGES

URL = "https://a.example/"
GOOD = Page(URL, URL, 200, "text/html", body=b"one", fields={"title": "One"})
BAD = Page(URL, URL, 404, "text/html", reason="status 404")


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path)


def add(home, *pages):
    with PageStore(home, "s") as store:
        return [store.add(page) for page in pages]


def test_what_is_new_about_a_page(home):
    assert add(home, BAD) == ["failed"]
    assert add(home, GOOD) == ["new"]
    assert add(home, GOOD) == ["unchanged"]
    assert add(home, replace(GOOD, body=b"two")) == ["changed"]
    assert add(home, replace(BAD, status=500, reason="status 500")) == ["failed"]
    row = read_manifest(home, "s").row(0, named=True)
    assert read_body(home, row["sha256"]) == b"two"
    assert row["status"] == 200


@pytest.mark.parametrize("status", [404, 410])
def test_a_page_goes_and_comes_back(home, status):
    gone = replace(BAD, status=status, reason=f"status {status}")
    add(home, GOOD)
    version = manifest_digest(read_manifest(home, "s"))
    with PageStore(home, "s") as store:
        assert store.add(gone) == "gone"
        row = store.finish("finished", 1, 0)
    assert (row["gone"], row["failed"]) == (1, "{}")
    assert read_manifest(home, "s").height == 0
    kept = read_manifest(home, "s", gone=True).row(0, named=True)
    assert kept["gone_at"] is not None
    assert read_body(home, kept["sha256"]) == b"one"
    assert manifest_digest(read_manifest(home, "s", gone=True)) != version
    assert add(home, gone) == ["failed"]  # it has gone once
    assert read_manifest(home, "s", gone=True)["gone_at"].to_list() == [kept["gone_at"]]
    assert add(home, GOOD) == ["new"]
    assert read_manifest(home, "s")["gone_at"].to_list() == [None]
    assert manifest_digest(read_manifest(home, "s")) == version


def test_what_a_page_served_under_another_url_has_is_not_gone(home):
    add(home, GOOD)
    assert add(home, BAD, replace(GOOD, alias=True)) == ["gone", "unchanged"]
    assert read_manifest(home, "s").height == 1


def test_a_url_counts_once_a_crawl(home):
    assert add(home, GOOD, replace(GOOD, body=b"two"), BAD) == ["new", "repeated", "repeated"]
    assert read_manifest(home, "s")["size"].to_list() == [3]


def test_a_page_served_under_its_url_replaces_one_that_names_it_as_canonical(home):
    alias = replace(GOOD, body=b"printed", alias=True)
    assert add(home, alias, GOOD, alias) == ["new", "new", "repeated"]
    manifest = read_manifest(home, "s")
    assert read_body(home, manifest["sha256"][0]) == b"one"
    assert add(home, alias, GOOD) == ["changed", "unchanged"]  # against the last crawl, not against the alias


def test_a_body_replaces_a_failure_of_the_same_crawl(home):
    with PageStore(home, "s") as store:
        assert [store.add(BAD), store.add(GOOD)] == ["failed", "new"]
        assert store.counts() == {"new": 1, "changed": 0, "unchanged": 0, "gone": 0, "failed": 0}


def test_the_record_of_a_crawl(home):
    with PageStore(home, "s") as store:
        store.add(GOOD)
        store.add(replace(BAD, url="x"))
        store.add(replace(BAD, url="y", reason="timeout"))
        row = store.finish("finished", requests=3, size=99)
    assert (row["new"], row["requests"], row["bytes"]) == (1, 3, 99)
    assert json.loads(row["failed"]) == {"status 404": 1, "timeout": 1}
    crawls = read_crawls(home, "s")
    assert crawls.schema == pl.Schema(CRAWLS)
    assert crawls["crawl_id"].to_list() == [row["crawl_id"]]


def test_complete_drops_what_was_not_seen(home):
    add(home, GOOD, replace(GOOD, url="other"))
    with PageStore(home, "s") as store:
        store.add(GOOD)
        row = store.finish("finished", 1, 3, complete=True)
    assert row["gone"] == 1
    assert read_manifest(home, "s")["url"].to_list() == [URL]
    assert read_manifest(home, "s", gone=True)["url"].to_list() == [URL, "other"]


def test_a_journal_left_behind_is_merged_whatever_was_torn(home):
    store = PageStore(home, "s")
    for number in range(3):
        store.add(replace(GOOD, url=str(number)))
    store._lock.close()  # as when the process is killed: no merge, the lock is gone
    journal = home.crawls / "s" / "journal.jsonl"
    whole = journal.read_bytes()
    journal.write_bytes(whole[:-20])
    with PageStore(home, "s") as again:
        assert sorted(again.manifest()["url"]) == ["0", "1"]
        journal.write_bytes(whole)
        assert again.merge_journal() == 3  # and once more, as when it died before the journal was removed
    manifest = read_manifest(home, "s")
    assert sorted(manifest["url"]) == ["0", "1", "2"]
    assert manifest.schema == pl.Schema(PAGES)
    assert read_crawls(home, "s")["outcome"].to_list() == ["killed"]


def test_a_crawl_that_is_killed_while_it_ends_is_one_row(home, monkeypatch):
    """The manifest is written first, then the record, and the journal goes last: killed after any of them."""
    for number, step in enumerate(("_merge", "_record", "close")):
        store = PageStore(home, "s")
        store.add(replace(GOOD, url=str(number)))

        def killed(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(store, step, killed)
        with pytest.raises(KeyboardInterrupt):
            store.finish("finished", 1, 3)
        store._lock.close()
    PageStore(home, "s").close()
    assert sorted(read_manifest(home, "s")["url"]) == ["0", "1", "2"]
    crawls = read_crawls(home, "s")
    assert crawls["outcome"].to_list() == ["killed", "killed", "finished"]
    assert crawls["new"].to_list() == [1, 1, 1]


def test_a_crawl_that_breaks_is_a_row_with_the_kind_of_error(home):
    def crawl() -> None:
        with PageStore(home, "s") as store:
            store.add(GOOD)
            raise OSError("/secret/place is full")

    with pytest.raises(OSError, match="is full"):
        crawl()
    row = read_crawls(home, "s").row(0, named=True)
    assert (row["outcome"], row["new"], row["requests"]) == ("error: OSError", 1, None)
    assert read_manifest(home, "s").height == 1


@pytest.mark.parametrize(
    ("outcome", "carried_on"),
    [
        ("stopped by a signal", True),
        ("limit: 5 seconds", True),
        ("finished", False),
        ("limit: 5 pages", False),
    ],
)
def test_what_an_interrupted_crawl_fetched_is_not_asked_for_again(home, outcome, carried_on):
    with PageStore(home, "s") as store:
        store.add(replace(GOOD, fetched_at=store.started_at))
        store.finish(outcome, 1, 3)
    with PageStore(home, "s") as store:
        assert (store.fresh(URL) is not None) == carried_on


def test_of_two_pages_with_one_canonical_url_the_same_stays_whichever_comes_first(home):
    first, second = (replace(GOOD, requested_url=f"{URL}?{n}", body=n.encode(), alias=True) for n in "12")
    for order in ((first, second), (second, first)):
        add(home, *order)
        assert read_body(home, read_manifest(home, "s")["sha256"][0]) == b"1"


def test_pages_that_are_followed_only_are_kept_with_their_validators(home):
    with PageStore(home, "s") as store:
        page = Followed(URL, "text/html", '"a"', None, b"links\nmore")
        store.followed.keep(page)
        assert store.followed.get(URL) == page
        assert store.followed.get(f"{URL}?") is None
        other = page._replace(url="b")
        store.followed.keep(other)
        store.followed._path("b").write_bytes(b"torn")
        assert store.followed.get("b") is None
        store.followed.keep(page._replace(etag=None))  # without a validator nobody could ask
        assert store.followed.get(URL) is None
        store.followed.keep(other)
        store.finish("finished", 2, 9)
    with PageStore(home, "s") as store:
        assert store.followed.get("b") == other
        os.utime(store.followed._path("b"), (1, 1))  # not met by the crawl that ends now
        store.finish("finished", 0, 0)
        assert store.followed.get("b") is None


BROKEN_RECORDS = [
    b"",
    b"no JSON",
    b"\xff\xfe\x00",
    b"[]",
    b"5",
    b"{}",
    b'{"crawl_id": "x", "source": "s", "started_at": "soon", "ended_at": "later"}',
    b"[" * 100_000,
]


@pytest.mark.parametrize("damage", [*BROKEN_RECORDS, "requests", "failed", "crawl_id"])
def test_a_record_that_cannot_be_read_is_put_aside_and_stops_nothing(home, damage, caplog):
    add(home, GOOD)
    with PageStore(home, "s") as store:
        store.finish("finished", 1, 3)
    (path,) = home.crawls.glob("s/*.json")
    if isinstance(damage, str):
        damage = json.dumps({**json.loads(path.read_text()), damage: ["flipped"]}).encode()
    (path.parent / "20200101T000000-flipped.json").write_bytes(damage)
    assert read_crawls(home, "s").height == 1
    assert "20200101T000000-flipped.json is not a record of a crawl" in caplog.text
    assert (path.parent / "20200101T000000-flipped.damaged").read_bytes() == damage
    assert add(home, GOOD) == ["unchanged"]


@pytest.mark.parametrize(
    "line",
    [
        *(
            b"5",
            b"[]",
            b"{}",
            b'"crawl"',
            b'{"page": {}, "outcome": "new"}',
            b'{"gone": 5, "at": "x"}',
            b"\xff",
        ),
        b'{"outcome": "new", "page": {"url": "x", "fetched_at": "soon", "sha256": null, "reason": null}}',
    ],
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_line_of_a_journal_that_no_store_wrote_is_left_out(home, line, place):
    store = PageStore(home, "s")
    store.add(GOOD)
    store._lock.close()
    store._journal.close()
    journal = home.crawls / "s" / "journal.jsonl"
    lines = journal.read_bytes().splitlines()
    journal.write_bytes(b"\n".join([*lines[:place], line, *lines[place:]]) + b"\n")
    with PageStore(home, "s") as again:
        assert [row["url"] for row in again.unseen()] == [URL]


@pytest.mark.parametrize("damage", [b"", b"PAR1 and nothing more"])
def test_a_manifest_that_cannot_be_read_is_put_aside_and_fetched_anew(home, damage, caplog):
    add(home, GOOD)
    path = home.pages("s") / "manifest.parquet"
    path.write_bytes(damage)
    assert add(home, GOOD) == ["new"]
    assert read_manifest(home, "s").height == 1
    assert "It is put aside" in caplog.text


def test_what_killed_processes_left_half_written_is_removed(home):
    add(home, GOOD)
    places = [home.crawls / "s", home.crawls / "s" / "followed", home.pages("s")]
    left = [place / ".x.gz.99999.abcdef01.tmp" for place in places]
    old = home.root / "bodies" / "ab" / ".abcd.gz.99999.abcdef01.tmp"
    for path in [*left, old]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"half")
    os.utime(old, (1, 1))
    young = old.with_name(".another.tmp")  # of another source's crawl, maybe, of an earlier version
    young.write_bytes(b"half")
    add(home, GOOD)
    assert not [path for path in [*left, old] if path.exists()]
    assert young.exists()


def test_a_body_is_written_where_the_lock_of_its_source_holds(home, monkeypatch):
    begun = []

    def killed(path, target):
        begun.append(path)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.unlink", lambda *_, **__: None)
        patch.setattr("pathlib.Path.replace", killed)
        store = PageStore(home, "s")
        with pytest.raises(KeyboardInterrupt):
            store.add(GOOD)
        store._lock.close()
        store._journal.close()
    assert begun[0].exists()
    add(home, GOOD)
    assert not list(home.root.rglob("*.tmp"))


def test_two_at_a_time_are_refused(home):
    with (
        PageStore(home, "s"),
        pytest.raises(LockedError, match=f"`s` is being crawled by process {os.getpid()}"),
    ):
        PageStore(home, "s")
    PageStore(home, "s").close()


def test_the_digest_knows_content_and_no_times(home):
    add(home, GOOD, replace(GOOD, url="b"))
    first = read_manifest(home, "s")
    assert manifest_digest(first) == manifest_digest(first.reverse())
    same = first.with_columns(fetched_at=pl.lit(None, PAGES["fetched_at"]), etag=pl.lit("new"))
    assert manifest_digest(same) == manifest_digest(first)
    for column in ("url", "sha256", "fields", "content_type"):
        other = first.with_columns(pl.lit("x").alias(column))
        assert manifest_digest(other) != manifest_digest(first)


def test_bodies_are_written_once_alike_and_verified(home):
    sha256 = write_body(home, b"body" * 100)
    path = home.body(sha256)
    before = path.read_bytes(), path.stat().st_mtime_ns
    assert write_body(home, b"body" * 100) == sha256
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert before[0][4:8] == bytes(4)  # gzip's own time stamp
    path.write_bytes(before[0][:-9])
    with pytest.raises(CorruptFileError, match=sha256):
        read_body(home, sha256)
    write_body(home, b"body" * 100)  # mends it
    assert read_body(home, sha256) == b"body" * 100
    with pytest.raises(CorruptFileError, match="Crawl its source again"):
        read_body(home, "0" * 64)


def test_a_page_has_a_body_or_a_reason():
    with pytest.raises(ValueError, match="either a body or a reason"):
        Page(URL, URL)
