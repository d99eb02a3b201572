"""`python -m crawlers`: what it takes, what it answers, and how Dagster starts it."""

import json
import subprocess
import sys

import dagster as dg
import pytest

from rag_assay.crawlers.__main__ import main
from rag_assay.crawlers.spiders.base import source_of
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.pages import read_crawls
from rag_assay.warehouse.schemas import CRAWLS
from rag_assay.warehouse.source import Source
from tests.fakes.crawling import ROOT, crawling
from tests.fakes.site import Reply, article, index, serving


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "source: "),
        (
            '{"spider": "nwes", "start": ["https://a.example/"]}',
            "must be 'eurlex', 'news', 'blog' or 'site'",
        ),
        ('{"spider": "news"}', "a spider needs at least one URL in `start`"),
        (
            '{"reader": "folder", "path": "/no/such/folder"}',
            "path: the folder /no/such/folder does not exist.",
        ),
    ],
)
def test_wrong_input_is_named_and_exits_with_2(tmp_path, monkeypatch, capsys, text, message):
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    spec = tmp_path / "spec.json"
    spec.write_text(text)
    assert main(["x", "--spec", str(spec)]) == 2
    assert message in capsys.readouterr().err


def test_missing_arguments(tmp_path, capsys):
    assert main([]) == 2
    assert main(["x", "--spec", str(tmp_path / "missing.json")]) == 2
    assert "missing.json: cannot be read" in capsys.readouterr().err


def pipes(tmp_path, monkeypatch, extras):
    """Run a crawl as the pages asset does, and return its custom messages."""
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    messages = []

    @dg.asset
    def pages(context: dg.AssetExecutionContext, client: dg.PipesSubprocessClient):
        done = client.run(
            context=context,
            command=[sys.executable, "-m", "rag_assay.crawlers", "site"],
            extras=extras,
            cwd=str(ROOT),
        )
        messages.extend(done.get_custom_messages())
        return dg.MaterializeResult()

    result = dg.materialize([pages], resources={"client": dg.PipesSubprocessClient()}, raise_on_error=False)
    return result.success, messages


@pytest.mark.parametrize("form", [dict, json.dumps])
def test_dagster_gets_the_row_of_the_crawl(tmp_path, monkeypatch, form):
    with serving() as site:
        site["/"] = Reply(index("/a", "/gone"))
        site["/a"] = Reply(article("A"))
        source = {"spider": "news", "start": [site.url("/")], "delay": 0, "allow_private": True}
        success, messages = pipes(tmp_path, monkeypatch, {"name": "site", "source": form(source)})
    assert success
    (row,) = messages
    assert row.keys() == CRAWLS.keys() | {"followed", "unmet"}
    assert row["followed"] == 1, "the index page"
    assert (row["source"], row["new"], json.loads(row["failed"])) == ("site", 1, {"status 404": 1})
    assert row["requests"] == 4


def test_dagster_sees_wrong_input_as_a_failure(tmp_path, monkeypatch):
    success, messages = pipes(tmp_path, monkeypatch, {"name": "site", "source": {"reader": "folder"}})
    assert (success, messages) == (False, [])


def scrapy(*arguments):
    command = [sys.executable, "-m", "scrapy", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=100)


LOOPBACK = ["-s", "DOWNLOAD_DELAY=0", "-s", "ALLOW_PRIVATE=1"]


def test_scrapy_list():
    assert scrapy("list").stdout.split() == ["blog", "eurlex", "news", "site"]


def test_scrapy_crawl_is_a_crawl_like_any_other(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    out, job = tmp_path / "out.jsonl", tmp_path / "job"
    with serving() as site:
        site["/"] = Reply(index("/a", "/b", "/c"))
        for path in ("/a", "/b", "/c"):
            site[path] = Reply(article(path), etag=path)
        start = ["-a", f"start={site.url('/')}", "-a", "deny=/b", "-a", "limits={pages: 50}"]
        crawl = ["crawl", "news", *start, "-s", f"JOBDIR={job}", "-O", str(out), *LOOPBACK]
        first = scrapy(*crawl)
        assert first.returncode == 0, first.stderr
        assert "news: finished; 2 new" in first.stderr
        site.forget()
        assert scrapy(*crawl).returncode == 0
        assert sorted(site.paths()) == ["/", "/a", "/c"]  # a job folder does not hide a site
        fetched = scrapy("fetch", site.url("/a"), *LOOPBACK)
        assert fetched.stdout.strip() == article("/a")
    source = crawling(tmp_path, "news", spider="news", start=["https://a.example/"])
    assert sorted(page["fields"]["headline"] for page in source.pages().values()) == ["/a", "/c"]
    crawls = read_crawls(source.home, "news")
    assert crawls["outcome"].to_list() == ["finished", "finished"]
    assert (crawls["new"].to_list(), crawls["unchanged"].to_list()) == ([2, 0], [0, 2])
    exported = [json.loads(line) for line in out.read_text().splitlines()]
    assert sorted(page["fields"]["headline"] for page in exported) == ["/a", "/c"]
    assert not any("body" in page for page in exported)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "-a start: Value error, a spider needs at least one URL in `start`"),
        ({"start": "https://a.example/", "denny": "/b"}, "-a denny: Extra inputs are not permitted"),
        ({"start": "https://a.example/", "limits": "{pages: many}"}, "-a limits.pages: Input should be"),
        ({"start": "https://a.example/", "limits": "{pages"}, "-a limits: '{pages' cannot be read"),
        ({"start": "https://a.example/", "allow_private": "1"}, "Give it as `-s ALLOW_PRIVATE=1`"),
    ],
)
def test_wrong_arguments_of_scrapy_crawl_are_named(arguments, message):
    with pytest.raises(InputError) as caught:
        source_of("news", arguments)
    assert message in str(caught.value)


def test_arguments_of_scrapy_crawl_are_the_fields_of_a_source():
    given = {
        "start": "https://a.example/x,https://b.example/",
        "allow": "/[ab]{1,2}/",
        "delay": "2",
        "content": "main",
    }
    assert source_of("site", given) == Source(
        spider="site",
        start=("https://a.example/x", "https://b.example/"),
        allow=("/[ab]{1,2}/",),
        delay=2,
        content="main",
    )
