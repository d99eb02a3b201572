"""The stage `pages`: what could not be read for the time being is read by the next run."""

from __future__ import annotations

import errno
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from rag_assay.assets import pages as pages_module
from rag_assay.assets.engine.builder import build_key
from rag_assay.assets.engine.stage import BuildContext
from rag_assay.assets.pages import Pages
from rag_assay.assets.recipes.build_half import Build
from rag_assay.crawlers.crawl import crawl
from rag_assay.crawlers.readers import folder as reading
from rag_assay.warehouse.files import fingerprint
from rag_assay.warehouse.pages import manifest_digest, read_body, read_manifest
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.source import Source
from tests.fakes.crawling import crawling
from tests.fakes.processes import wait_until
from tests.fakes.site import Reply, article, serving


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    folder = tmp_path / "texts"
    folder.mkdir()
    for name in "abc":
        (folder / f"{name}.txt").write_text(f"The text of {name} is here.")
    return folder


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE, errno.ESTALE, errno.ENOMEM])
def test_a_passing_error_leaves_the_pages_incomplete_until_the_file_is_read(
    tmp_path: Path, texts: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def here(name: str, source: Source, work: BuildContext) -> dict[str, Any]:
        return crawl(work.home, name, source, print)

    monkeypatch.setattr(pages_module, "run_crawler", here)
    stage = Pages(Build(sources={"texts": Source(reader="folder", path=str(texts))}))
    work, sound = BuildContext(Home(tmp_path / "home")), reading._content

    def failing(path: Path, limit: int) -> tuple[bytes, str]:
        if path.name == "b.txt":
            raise OSError(number, os.strerror(number))
        return sound(path, limit)

    with monkeypatch.context() as patch:
        patch.setattr(reading, "_content", failing)
        passing = build_key(stage, "texts", work)
    assert passing.error == f"1 x cannot be read now: {os.strerror(number)}; the next run reads again"
    assert stage.fresh("texts", work.store) is None
    assert build_key(stage, "texts", work).ok
    assert stage.fresh("texts", work.store) is not None
    assert len(read_manifest(work.home, "texts")) == 3


def test_a_file_that_never_can_be_read_is_a_failed_page_and_no_more(tmp_path: Path, texts: Path) -> None:
    (texts / "dangling.txt").symlink_to(texts / "nowhere.txt")
    home = Home(tmp_path / "home")
    row = crawl(home, "texts", Source(reader="folder", path=str(texts)), print)
    (reason,) = json.loads(row["failed"])
    assert "now" not in reason


def test_more_failed_files_than_read_ones_are_told_with_their_reasons(
    tmp_path: Path, texts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def here(name: str, source: Source, work: BuildContext) -> dict[str, Any]:
        return crawl(work.home, name, source, print)

    monkeypatch.setattr(pages_module, "run_crawler", here)
    for name in ("a.png", "b.png", "c.png", "d.gif"):
        (texts / name).write_bytes(b"GIF89a")
    stage = Pages(Build(sources={"texts": Source(reader="folder", path=str(texts))}))
    outcome = build_key(stage, "texts", BuildContext(Home(tmp_path / "home")))
    (told,) = (one for one in outcome.checks if one.name == "has_pages")
    reasons = "3 x unsupported file type: .png; 1 x unsupported file type: .gif"
    assert (told.passed, told.description) == (False, f"3 pages stored, 4 failed ({reasons})")


def test_a_file_replaced_by_one_of_the_same_size_and_date_is_noticed(texts: Path) -> None:
    before, path = fingerprint(texts), texts / "a.txt"
    at = path.stat()
    path.write_text(path.read_text().replace("here", "gone"))
    os.utime(path, ns=(at.st_atime_ns, at.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (at.st_size, at.st_mtime_ns)
    assert fingerprint(texts) != before


def test_another_folder_behind_a_link_is_noticed(tmp_path: Path, texts: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(texts)
    before = fingerprint(link)
    other = tmp_path / "other"
    texts.rename(other)
    link.unlink()
    link.symlink_to(other)
    assert fingerprint(link) != before


def test_a_killed_reading_has_every_body_that_its_journal_names(tmp_path: Path) -> None:
    lines = (json.dumps({"_id": str(n), "text": f"passage {n} " * 20}) for n in range(20_000))
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines))
    source = crawling(tmp_path, "s", reader="beir", path=str(tmp_path))
    process = source.start()
    journal = source.home.crawls / "s" / "journal.jsonl"
    assert wait_until(lambda: journal.exists() and journal.read_bytes().count(b"\n") > 1000)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    entries = [json.loads(line) for line in journal.read_bytes().splitlines()[1:-1]]
    assert 1000 <= len(entries) < 20_000
    for entry in entries[-500:]:
        assert b"passage" in read_body(source.home, entry["page"]["sha256"])
    source.run()
    alone = Home(tmp_path / "alone")
    crawl(alone, "s", Source(reader="beir", path=str(tmp_path)), print)
    assert manifest_digest(read_manifest(source.home, "s")) == manifest_digest(read_manifest(alone, "s"))
    assert not list(source.home.root.rglob("*.tmp"))


PROSE = (
    "The ferry leaves the harbour at noon, carries nineteen cars, and comes back before the tide turns; " * 3
)


@pytest.mark.parametrize(
    ("spider", "more", "blocks", "words"),
    [
        (
            "news",
            {},
            True,
            "1 pages stored, 33 read and not stored: `spider: site` would have stored 33 of them",
        ),
        ("site", {"content": "article"}, False, "1 pages stored, 33 read and not stored: check the selector"),
        ("site", {}, False, None),
    ],
)
def test_a_spider_that_refuses_most_of_what_it_read_fails_its_check(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    spider: str,
    more: dict[str, str],
    blocks: bool,
    words: str | None,
) -> None:
    with serving() as site:
        paths = [f"/manual/{number}" for number in range(33)]
        site["/"] = Reply(article("Home", *paths))
        for path in paths:
            site[path] = Reply(f"<html><body><h1>{path}</h1><p>{PROSE}</p></body></html>")
        crawling_ = crawling(tmp_path, "texts", spider=spider, start=[site.url("/")], **more)

        def here(name: str, source: Source, work: BuildContext) -> dict[str, Any]:
            return crawling_.run()

        monkeypatch.setattr(pages_module, "run_crawler", here)
        source = Source.model_validate(json.loads(crawling_.spec.read_text()))
        outcome = build_key(Pages(Build(sources={"texts": source})), "texts", BuildContext(crawling_.home))
    (fits,) = [check for check in outcome.checks if check.name == "spider_fits"]
    assert fits.passed is (words is None)
    assert words is None or fits.description.startswith(words)
    assert outcome.ok is not blocks
    assert fits.metadata["refused"] == (33 if words else 0)


@pytest.mark.parametrize(
    ("starts", "beside"),
    [
        ({"a": "https://a.example/", "b": "https://b.example/"}, "ab"),
        ({"a": "https://a.example/x", "b": "https://a.example/y"}, ""),
        ({"a": "https://a.example:8000/", "b": "http://a.example/"}, ""),
        ({"a": "https://a.example/", "b": "https://news.a.example/", "c": "https://na.example/"}, "c"),
        ({"a": "32009L0119", "b": "https://eur-lex.europa.eu/x", "c": "https://c.example/"}, "c"),
    ],
)
def test_only_sources_whose_hosts_no_other_one_asks_are_crawled_side_by_side(
    starts: dict[str, str], beside: str
) -> None:
    sources = {
        name: Source(spider="eurlex" if start[0].isdigit() else "news", start=(start,))
        for name, start in starts.items()
    }
    sources["files"] = Source(reader="folder", path="texts")
    stage = Pages(Build(sources=sources))
    assert [name for name in sources if stage.waits_for_servers(name)] == list(beside)
