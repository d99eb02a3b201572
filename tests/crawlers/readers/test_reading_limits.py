"""Limits of crawls are not limits of files; where one that was said cuts a source of files, it is told."""

from __future__ import annotations

import pytest

from rag_assay.crawlers.crawl import crawl
from rag_assay.crawlers.readers import cut
from rag_assay.warehouse.pages import read_manifest
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.source import UNLIMITED, CrawlLimits, Source


def lines(tmp_path, number):
    path = tmp_path / "a.txt"
    path.write_text("".join(f"line number {n}\n" for n in range(number)))
    return path


def source(path, **limits):
    return Source.model_validate({"reader": "text", "path": str(path), "lines": True, "limits": limits})


def test_a_reader_has_no_limit_unless_one_is_said():
    for limits in ({}, {"page_bytes": 5000}, CrawlLimits(page_bytes=5000)):
        files = Source.model_validate({"reader": "text", "path": "x", "limits": limits})
        assert files.limits.pages == files.limits.bytes == files.limits.seconds == UNLIMITED
        assert Source.model_validate(files.model_dump(mode="json")) == files
    assert Source(reader="text", path="x", limits=CrawlLimits(pages=7)).limits.pages == 7
    assert source("x", pages=10_000).limits.pages == 10_000
    site = Source(spider="site", start=("https://a.example/",))
    assert (site.limits.pages, site.limits.seconds) == (10_000, 4 * 3600)


def test_more_passages_than_a_crawl_may_fetch_are_all_read(tmp_path):
    path, home = lines(tmp_path, 10_001), Home(tmp_path / "home")
    row = crawl(home, "s", source(path), print)
    assert (row["outcome"], row["new"]) == ("finished", 10_001)
    assert read_manifest(home, "s").height == 10_001


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ({"pages": 4}, "limit: 4 pages"),
        ({"pages": 5}, None),
        ({"pages": 6}, None),
        ({"bytes": 1024}, None),
        ({}, None),
    ],
)
def test_a_limit_cuts_only_where_there_is_more(tmp_path, limits, told):
    files = source(lines(tmp_path, 5), **limits)
    assert cut(files) == told
    row = crawl(Home(tmp_path / "home"), "s", files, print)
    assert row["outcome"] == (told or "finished")


def test_seconds_and_bytes_cut_too(tmp_path, monkeypatch):
    path = lines(tmp_path, 200)
    assert cut(source(path, bytes=1024)) == "limit: 1024 bytes"
    clock = iter(range(1000))
    monkeypatch.setattr("rag_assay.crawlers.readers.time.monotonic", lambda: next(clock))
    row = crawl(Home(tmp_path / "home"), "s", source(path, seconds=3), print)
    assert (row["outcome"], row["new"]) == ("limit: 3 seconds", 2)
