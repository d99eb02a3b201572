"""Crawls that are killed, stopped, or meet a limit."""

import json
import os
import signal
import time

import pytest

from rag_assay.warehouse.pages import read_body, read_crawls
from tests.fakes.crawling import ROOT, crawling
from tests.fakes.site import Reply, article, index, serving

NUMBER = 30


@pytest.fixture
def slow_site(tmp_path):
    """A site of 30 articles, and its source; `site.allow` says how far a crawl gets."""
    with serving() as site:
        site["/"] = Reply(index(*(f"/{number}" for number in range(NUMBER))))
        for number in range(NUMBER):
            site[f"/{number}"] = Reply(article(f"Article {number}"), etag=f'"{number}"')
        yield site, crawling(tmp_path, spider="news", start=[site.url("/")], delay=0.01)


def wait_for_lines(path, number):
    until = time.monotonic() + 100  # a busy machine may take long to start a process
    while time.monotonic() < until:
        if path.exists() and path.read_bytes().count(b"\n") >= number:
            return
        time.sleep(0.02)
    pytest.fail("the crawl stored too little to be killed in the middle")


def test_sigkill_loses_no_page_and_doubles_none(slow_site):
    site, source = slow_site
    journal = source.home.crawls / "site" / "journal.jsonl"
    site.allow(2 + 10)  # robots.txt, the start page, ten articles
    process = source.start()
    wait_for_lines(journal, 8)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    stored = [json.loads(line)["page"]["url"] for line in journal.read_bytes().splitlines()[1:]]
    assert 7 <= len(stored) < NUMBER
    assert source.pages() == {}  # nothing is merged yet
    with journal.open("ab") as file:
        file.write(b'{"outcome": "new", "page": {"url": "http://torn')
    site.forget()
    site.allow(None)

    row = source.run()

    assert (row["new"], row["unchanged"]) == (NUMBER - len(stored), len(stored))
    asked = [site.url(path) for path in site.paths()]
    assert len(asked) == len(set(asked)) == 1 + NUMBER - len(stored)  # the start page, and what was missing
    assert not set(asked) & set(stored)
    pages = source.pages()
    assert len(pages) == NUMBER
    assert all(b"Article" in read_body(source.home, page["sha256"]) for page in pages.values())
    assert not journal.exists()
    records = read_crawls(source.home, "site")
    assert records["outcome"].to_list() == ["killed", "finished"]
    assert records["new"].to_list() == [len(stored), NUMBER - len(stored)]
    assert records["requests"].to_list()[0] is None  # unknown, which is not 0


def test_a_killed_crawl_of_500_pages_goes_on_where_it_was(tmp_path):
    number = 500
    with serving() as site:
        site["/"] = Reply(index(*(f"/list/{at}" for at in range(10))))
        for at in range(10):
            site[f"/list/{at}"] = Reply(index(*(f"/{one}" for one in range(at * 50, at * 50 + 50))))
        for at in range(number):  # each links to the next one, too
            site[f"/{at}"] = Reply(article(f"Article {at}", f"/{at + 1}"), etag=f'"{at}"')
        source = crawling(tmp_path, spider="news", start=[site.url("/")])
        journal = source.home.crawls / "site" / "journal.jsonl"
        stored: set[str] = set()
        # Killed twice; what is there already comes first. robots.txt, 11 pages of links and the requests that
        # the first process left waiting are among the answers.
        for answers, lines in ((12 + 200, 150), (20 + 100, 240)):
            site.allow(answers)
            process = source.start()
            wait_for_lines(journal, lines)
            process.send_signal(signal.SIGKILL)
            process.communicate()
            entries = [json.loads(line) for line in journal.read_bytes().splitlines()[1:-1]]
            stored |= {entry["page"]["url"] for entry in entries if "page" in entry}
        assert 230 <= len(stored) < number
        site.forget()
        site.allow(None)
        row = source.run()
        asked = {site.url(path) for path in site.paths()}
        versions = {page["fetched_at"] for page in source.pages().values()}
    assert not asked & stored
    assert len([path for path in asked if "/list/" not in path]) <= 1 + 1 + number - len(stored)  # and /500
    assert row["outcome"] == "finished"
    assert len([page for page in source.pages().values() if page["sha256"]]) == number
    assert len(versions) == number + 1, "each page bears the time when it was fetched"
    assert read_crawls(source.home, "site")["outcome"].to_list() == ["killed", "killed", "finished"]
    down = source.run()  # the crawl before was whole, so this one asks, and the site is not there any more
    assert (down["failed"], down["gone"], down["unchanged"]) == ({"connection refused": 1}, 0, 0)


def test_sigterm_ends_in_good_order_and_the_next_crawl_goes_on(slow_site):
    site, source = slow_site
    site.allow(2 + 10)
    process = source.start()
    wait_for_lines(source.home.crawls / "site" / "journal.jsonl", 5)
    process.send_signal(signal.SIGTERM)
    site.allow(None)
    out, _ = process.communicate(timeout=100)
    assert process.returncode == 0
    assert "stopped by a signal" in out
    stored = set(source.pages())
    assert 4 <= len(stored) < NUMBER
    assert read_crawls(source.home, "site")["outcome"].to_list() == ["stopped by a signal"]
    site.forget()
    row = source.run()
    assert (row["outcome"], row["new"]) == ("finished", NUMBER - len(stored))
    assert not {site.url(path) for path in site.paths()} & stored
    assert len(source.pages()) == NUMBER


def test_one_crawl_a_source_at_a_time(slow_site):
    site, source = slow_site
    site.allow(2 + 5)
    process = source.start()
    wait_for_lines(source.home.crawls / "site" / "journal.jsonl", 3)
    second = source.start()
    _, err = second.communicate(timeout=100)
    assert second.returncode == 1
    assert err.strip() == (
        f"The source `site` is being crawled by process {process.pid}. Wait for it to end, or stop it."
    )
    site.allow(None)
    process.communicate(timeout=100)
    assert len(source.pages()) == NUMBER
    assert read_crawls(source.home, "site").height == 1


def test_a_crawl_that_is_killed_before_its_first_page_is_a_row_too(slow_site):
    site, source = slow_site
    site.allow(0)
    process = source.start()
    wait_for_lines(source.home.crawls / "site" / "journal.jsonl", 1)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    site.allow(None)
    source.run()
    records = read_crawls(source.home, "site")
    assert records["outcome"].to_list() == ["killed", "finished"]
    assert (records["ended_at"] >= records["started_at"]).all()


def test_the_limit_of_pages_is_kept_to_exactly(tmp_path, slow_site):
    site, _ = slow_site
    source = crawling(tmp_path, "few", spider="news", start=[site.url("/")], limits={"pages": 7})
    row = source.run()
    assert (row["outcome"], row["new"], len(source.pages())) == ("limit: 7 pages", 7, 7)


def test_the_limit_of_seconds_and_the_next_crawl_goes_on(tmp_path, slow_site):
    site, _ = slow_site
    limits = {"seconds": 3}  # of 30 pages with half a second between them
    source = crawling(tmp_path, "short", spider="news", start=[site.url("/")], delay=0.5, limits=limits)
    row = source.run()
    assert row["outcome"] == "limit: 3 seconds"
    stored = set(source.pages())
    assert len(stored) < NUMBER
    site.forget()
    again = source.run()
    assert not {site.url(path) for path in site.paths()} & stored  # else a large site would never be done
    assert again["unchanged"] == len(stored)


def test_the_limit_of_depth_counts_links_and_not_result_pages(tmp_path):
    with serving() as site:
        for number in range(1, 6):
            following = f"/list/{number + 1}" if number < 5 else None
            site[f"/list/{number}"] = Reply(index(f"/{number}", following=following))
            site[f"/{number}"] = Reply(article(f"On list {number}", f"/below/{number}"))
            site[f"/below/{number}"] = Reply(article("Two links away"))
        source = crawling(tmp_path, spider="news", start=[site.url("/list/1")], limits={"depth": 1})
        row = source.run()
        paths = {url.removeprefix(site.base) for url in source.pages()}
    assert paths == {"/1", "/2", "/3", "/4", "/5"}
    assert row["outcome"] == "limit: depth 1"


def test_a_row_of_result_pages_without_end_is_left(tmp_path):
    with serving() as site:
        site["/list/1"] = Reply(index("/a", following="/list/2"))
        for number in range(2, 100):
            site[f"/list/{number}"] = Reply(index("/a", following=f"/list/{number + 1}"))
        site["/a"] = Reply(article("A"))
        source = crawling(tmp_path, spider="news", start=[site.url("/list/1")])
        row = source.run()
        lists = [path for path in site.paths() if path.startswith("/list/")]
    assert len(lists) == 1 + 20  # twenty pages in a row brought nothing new
    assert row["new"] == 1
    assert "20 pages without a new link" in row["stderr"]


def test_a_page_that_cannot_be_stored_ends_the_crawl(slow_site):
    _, source = slow_site
    source.home.root.mkdir()
    (source.home.root / "bodies").write_text("a file where the folder should be")
    process = source.start()
    _, err = process.communicate(timeout=100)
    assert process.returncode == 1
    assert "NotADirectoryError" in err or "FileExistsError" in err
    (outcome,) = read_crawls(source.home, "site")["outcome"]
    assert outcome in {"error: NotADirectoryError", "error: FileExistsError"}


def test_pages_that_hold_nothing_to_store_are_bounded_too(tmp_path, monkeypatch):
    with serving() as site:
        for number in range(40):  # a calendar: each day leads to the next one, and none is an article
            site[f"/day/{number}"] = Reply(index(f"/day/{number + 1}"))
        hook = "import rag_assay.crawlers.spiders.base as base; base.FOLLOWED_AT_LEAST = 5"
        (tmp_path / "sitecustomize.py").write_text(hook)
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(ROOT / "src"), str(ROOT)]))
        limits = {"pages": 1, "depth": 39}
        source = crawling(tmp_path, spider="news", start=[site.url("/day/0")], delay=0.01, limits=limits)
        row = source.run()
        assert len(site.paths()) == 11  # one more, which finds the limit met
    assert row["outcome"] == "limit: 10 pages that hold nothing to store"
