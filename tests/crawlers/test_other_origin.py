"""A source that has become another one: nothing of what it was before stands among its pages."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from rag_assay.crawlers.crawl import crawl
from rag_assay.crawlers.links import Bounds
from rag_assay.crawlers.store import PageStore
from rag_assay.warehouse.pages import manifest_digest, read_body, read_manifest
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.source import Source
from tests.crawlers.test_store import GOOD
from tests.fakes.crawling import Crawling, crawling
from tests.fakes.processes import wait_until
from tests.fakes.site import Reply, article, index, serving


def beir(folder: Path, **texts: str | None) -> Path:
    """A BEIR folder; a passage whose text is None is one that cannot be stored."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps({"_id": key, "text": text or ""}) for key, text in texts.items())
    (folder / "corpus.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def texts(home: Home) -> dict[str, str]:
    """URL -> text of what is stored of the source `s`."""
    stored = read_manifest(home, "s").filter(read_manifest(home, "s")["sha256"].is_not_null())
    bodies = {row["url"]: read_body(home, row["sha256"]) for row in stored.iter_rows(named=True)}
    return {url: json.loads(body)["text"] for url, body in bodies.items()}


A = {"1": "the old ferry", "2": "the old mill", "3": "the old quay"}
B = {"1": None, "2": "the new mill"}
OF_A = {f"beir:{key}": text for key, text in A.items()}
OF_B = {"beir:2": "the new mill"}


def by_variable(folder: Path, which: str) -> Source:
    return Source(reader="beir", path=str(beir(folder / which, **(A if which == "a" else B))))


def by_symlink(folder: Path, which: str) -> Source:
    by_variable(folder, which)
    (folder / "link").unlink(missing_ok=True)
    (folder / "link").symlink_to(folder / which)
    return Source(reader="beir", path=str(folder / "link"))


def by_content(folder: Path, which: str) -> Source:
    other = by_variable(folder, which)
    shutil.rmtree(folder / "same", ignore_errors=True)
    shutil.copytree(str(other.path), folder / "same")
    return Source(reader="beir", path=str(folder / "same"))


def by_reader(folder: Path, which: str) -> Source:
    if which == "a":
        return by_variable(folder, which)
    lines = [{"_id": key, "text": text or ""} for key, text in B.items()]
    (folder / "b.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return Source(reader="jsonl", path=str(folder / "b.jsonl"), columns={"id": "_id"})


@pytest.mark.parametrize("switched", [by_variable, by_symlink, by_content, by_reader])
def test_the_first_and_the_third_reading_are_alike_and_the_second_is_its_own(tmp_path, switched):
    home, alone = Home(tmp_path / "home"), Home(tmp_path / "alone")
    crawl(home, "s", switched(tmp_path, "a"), print)
    first = manifest_digest(read_manifest(home, "s"))
    assert texts(home) == OF_A
    crawl(home, "s", switched(tmp_path, "b"), print)
    crawl(alone, "s", switched(tmp_path, "b"), print)
    assert texts(home) == texts(alone)
    assert list(texts(home).values()) == ["the new mill"]
    assert manifest_digest(read_manifest(home, "s")) == manifest_digest(read_manifest(alone, "s"))
    crawl(home, "s", switched(tmp_path, "a"), print)
    assert manifest_digest(read_manifest(home, "s")) == first
    assert texts(home) == OF_A


def test_what_a_limit_cuts_off_of_the_other_folder_is_not_of_the_first(tmp_path):
    home = Home(tmp_path / "home")
    crawl(home, "s", by_variable(tmp_path, "a"), print)
    few = Source.model_validate({"reader": "beir", "path": str(tmp_path / "a"), "limits": {"pages": 1}})
    crawl(home, "s", few, print)
    assert texts(home) == {"beir:1": "the old ferry"}


def test_a_reading_that_was_killed_leaves_nothing_in_the_other_folder(tmp_path):
    home = Home(tmp_path / "home")
    a, b = by_variable(tmp_path, "a"), by_variable(tmp_path, "b")
    crawl(home, "s", a, print)
    store = PageStore(home, "s", b.origin, from_files=True)
    store.add(GOOD)
    store._journal.close()
    store._lock.close()  # as when the process is killed: nothing is merged, the lock is gone
    row = crawl(home, "s", a, print)
    assert row["unchanged"] == 3
    assert texts(home) == OF_A
    crawl(home, "s", b, print)
    assert texts(home) == OF_B


def site_of(tmp_path: Path, start: str, **more: object) -> Crawling:
    return crawling(tmp_path, "s", spider="site", start=[start], **more)


def test_another_root_of_a_site_starts_from_nothing_and_is_kept_for_its_return(tmp_path):
    with serving() as site:
        for root in ("/a", "/b"):
            site[f"{root}/"] = Reply(index(f"{root}/1", "/shared"))
            site[f"{root}/1"] = Reply(article(f"Of {root}"), etag=f'"{root}"')
        site["/shared"] = Reply(article("Shared"), etag='"shared"')
        first = site_of(tmp_path, site.url("/a/"))
        first.run()
        of_a = manifest_digest(read_manifest(first.home, "s"))
        site["/shared"] = Reply("down", status=500)
        site.forget()
        row = site_of(tmp_path, site.url("/b/")).run()
        stored = {url for url, page in first.pages().items() if page["sha256"]}
        assert stored == {site.url("/b/"), site.url("/b/1")}, "not the /shared of the other root"
        assert (row["new"], row["failed"]) == (2, {"status 500": 1})
        assert not [path for path in site.paths() if path.startswith("/a")]
        site["/shared"] = Reply(article("Shared"), etag='"shared"')
        site.forget()
        back = site_of(tmp_path, site.url("/a/")).run()
        sent = {one.path: one.sent for one in site.asked}
    assert (back["new"], back["unchanged"]) == (0, 3)
    assert sent["/a/1"] == 0, "it is asked whether it changed"
    assert manifest_digest(read_manifest(first.home, "s")) == of_a


def test_another_root_that_is_down_has_no_pages_at_all(tmp_path):
    with serving() as site:
        site["/"] = Reply(index("/1"))
        site["/1"] = Reply(article("One"))
        source = site_of(tmp_path, site.url("/"))
        source.run()
        row = site_of(tmp_path, site.url("/nowhere")).run()
        assert row["outcome"] == "no start page: status 404"
        assert not [page for page in source.pages().values() if page["sha256"]]
        site_of(tmp_path, site.url("/")).run()
        assert len([page for page in source.pages().values() if page["sha256"]]) == 2


def test_what_a_narrower_scope_leaves_out_goes_also_where_a_limit_ends_the_crawl(tmp_path):
    with serving() as site:
        site["/"] = Reply(index(*(f"/{n}" for n in range(6))))
        for n in range(6):
            site[f"/{n}"] = Reply(article(f"Article {n}"))
        source = crawling(tmp_path, "s", spider="news", start=[site.url("/")])
        source.run()
        fewer = crawling(
            tmp_path, "s", spider="news", start=[site.url("/")], deny=["/5$"], limits={"pages": 2}
        )
        row = fewer.run()
    assert (row["outcome"], row["gone"]) == ("limit: 2 pages", 1)
    assert set(source.pages()) == {site.url(f"/{n}") for n in range(5)}, "a site's pages outlive a limit"


def test_a_killed_crawl_of_another_root_is_not_carried_on(tmp_path):
    with serving() as site:
        for root in ("/a", "/b"):
            site[f"{root}/"] = Reply(index(*(f"{root}/{n}" for n in range(5))))
            for n in range(5):
                site[f"{root}/{n}"] = Reply(article(f"{root} {n}"))
        first = crawling(tmp_path, "s", spider="news", start=[site.url("/a/")])
        site.allow(4)
        process = first.start()
        journal = first.home.crawls / "s" / "journal.jsonl"
        assert wait_until(lambda: journal.exists() and journal.read_bytes().count(b"\n") >= 3)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        site.allow(None)
        row = crawling(tmp_path, "s", spider="news", start=[site.url("/b/")]).run()
        assert row["new"] == 5
        assert set(first.pages()) == {site.url(f"/b/{n}") for n in range(5)}
        assert crawling(tmp_path, "s", spider="news", start=[site.url("/a/")]).run()["outcome"] == "finished"
        assert set(first.pages()) == {site.url(f"/a/{n}") for n in range(5)}


def test_a_home_that_does_not_say_what_its_sources_were_goes_on(tmp_path):
    home = Home(tmp_path / "home")
    with PageStore(home, "s") as store:  # as it was written before
        store.add(GOOD)
    with PageStore(home, "s", "another") as store:
        assert [row["url"] for row in store.unseen()] == [GOOD.url]


def test_hosts_below_a_named_one_are_its_own_and_those_that_only_end_alike_are_not():
    source = Source.model_validate({"spider": "site", "start": ["https://example.org/"]})
    bounds = Bounds(source)
    own = ["https://example.org/a", "http://docs.example.org/", "https://a.b.example.org:8443/x"]
    foreign = [
        "https://evilexample.org/",
        "https://example.org.evil.net/",
        "https://xample.org/",
        "https://org/",
    ]
    assert [bounds.foreign(url) for url in own] == [None] * len(own)
    assert all("another host" in (bounds.foreign(url) or "") for url in foreign)
