"""The crawler's process under `assay`: it ends with its parent, says what went wrong, and stops at Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from rag_assay.warehouse.pages import read_crawls, read_manifest
from rag_assay.warehouse.paths import Home
from tests.fakes.commands import assay
from tests.fakes.processes import ROOT, assay_command, in_terminal, of_home, wait_until
from tests.fakes.site import Reply, Site, article, index, serving

pytestmark = pytest.mark.models
NUMBER = 12
TEXT = "The ferry to the island runs every forty minutes, and carries nineteen cars. " * 4


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as site:
        site["/"] = Reply(index(*(f"/{number}" for number in range(NUMBER))))
        for number in range(NUMBER):
            site[f"/{number}"] = Reply(article(f"Article {number}", text=TEXT), etag=f'"{number}"')
        yield site


@pytest.fixture
def other() -> Iterator[Site]:
    """A site at another host: `localhost`."""
    with serving() as site:
        site["/"] = Reply(index("/a", "/b"))
        for path in ("/a", "/b"):
            site[path] = Reply(article(path, text=TEXT))
        site.base = site.base.replace("127.0.0.1", "localhost")
        yield site


@pytest.fixture
def news(site: Site, study_path: Path) -> Path:
    """The small study, over the articles of the site."""
    source = f"{{spider: news, start: ['{site.url('/')}'], delay: 0, allow_private: true}}"
    study_path.write_text(study_path.read_text().replace("{reader: folder, path: texts}", source))
    return study_path


def crawl(study: Path) -> list[str]:
    return assay_command("run", str(study), "--recrawl", "texts", "--only", "documents")


def stored(home: Home) -> int:
    journal = home.crawls / "texts" / "journal.jsonl"
    return journal.read_bytes().count(b"\n") - 1 if journal.exists() else 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_of_ours_outlives_a_killed_command(
    assay_home: Home, site: Site, news: Path, number: signal.Signals
) -> None:
    site.allow(2 + 5)
    parent = subprocess.Popen(
        crawl(news), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    assert wait_until(lambda: stored(assay_home) >= 4)
    assert len(of_home(assay_home.root)) >= 2, "the command and its crawler"
    parent.send_signal(number)
    if number is signal.SIGTERM:
        site.allow(None)  # an answer that is under way is waited for
    _, said = parent.communicate(timeout=100)
    assert wait_until(lambda: not of_home(assay_home.root)), of_home(assay_home.root)
    assert "Traceback" not in said
    site.allow(None)
    site.forget()
    done = assay("run", str(news), "--recrawl", "texts", "--only", "documents")
    assert done.returncode == 0, done.stderr
    assert len(read_manifest(assay_home, "texts")) == NUMBER
    assert len(site.paths()) < 1 + NUMBER, "what was stored is not asked for again"


def test_sources_of_different_hosts_are_crawled_side_by_side(
    assay_home: Home, site: Site, other: Site, news: Path
) -> None:
    source = f"{{spider: news, start: ['{other.url('/')}'], delay: 0, allow_private: true}}"
    text = news.read_text().replace("sources: [texts]", "sources: [texts, more]")
    news.write_text(text.replace("sources:\n", f"sources:\n  more: {source}\n", 1))
    command = ("run", str(news), "--only", "documents")
    for one in (site, other):
        one.allow(0)
    parent = subprocess.Popen(
        assay_command(*command), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )

    def crawlers() -> list[int]:
        return [pid for pid, words in of_home(assay_home.root).items() if "-m rag_assay.crawlers" in words]

    # A crawl that is not answered ends after a while, and the next one begins.
    assert wait_until(lambda: bool(site.asked and other.asked) and len(crawlers()) == 2), "one waits"
    parent.send_signal(signal.SIGTERM)
    _, said = parent.communicate(timeout=100)
    assert parent.returncode == 130, said
    assert wait_until(lambda: not of_home(assay_home.root)), of_home(assay_home.root)
    for one in (site, other):
        one.allow(None)
    done = assay(*command)
    assert done.returncode == 0, done.stderr
    assert [len(read_manifest(assay_home, name)) for name in ("texts", "more")] == [NUMBER, 2]


def test_ctrl_c_in_a_terminal_shows_no_stack_and_leaves_nobody(
    assay_home: Home, site: Site, news: Path
) -> None:
    site.allow(2 + 5)
    command = in_terminal(crawl(news))
    assert wait_until(lambda: stored(assay_home) >= 4)
    command.type("\x03")
    site.allow(None)
    code, shown = command.end()
    assert code == 130, shown
    assert "Traceback" not in shown, shown
    assert "watch_orphans" not in shown
    assert "stopped. Finished results are stored" in shown
    assert wait_until(lambda: not of_home(assay_home.root)), of_home(assay_home.root)
    assert read_crawls(assay_home, "texts")["outcome"].to_list() == ["stopped by a signal"]


def test_a_source_that_cannot_be_read_is_a_sentence_without_codes(assay_home: Home, study_path: Path) -> None:
    for path in (study_path.parent / "texts").iterdir():
        path.unlink()
    done = assay("run", str(study_path))
    assert done.returncode == 1
    assert f"the folder {study_path.parent / 'texts'} holds no file" in " ".join(done.stderr.split())
    assert "External execution" not in done.stderr
    assert "crawl.log" not in done.stderr, "a reader writes none"


def test_a_crawler_that_dies_is_named_by_its_signal(assay_home: Home, site: Site, news: Path) -> None:
    site.allow(2 + 3)
    parent = subprocess.Popen(
        crawl(news), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    assert wait_until(lambda: stored(assay_home) >= 2)
    (crawler,) = (pid for pid, words in of_home(assay_home.root).items() if "-m rag_assay.crawlers" in words)
    os.kill(crawler, signal.SIGKILL)
    _, said = parent.communicate(timeout=100)
    assert parent.returncode == 1
    assert "killed by SIGKILL" in said
    site.allow(None)
