"""`python -m crawlers`: what it takes, what it answers, and how Dagster starts it."""

import json
import subprocess
import sys

import dagster as dg
import pytest

from crawlers.__main__ import main
from tests.fakes.crawling import ROOT, crawling
from tests.fakes.site import Reply, article, index, serving
from warehouse.schemas import CRAWLS


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "source: "),
        (
            '{"spider": "nwes", "start": ["https://a.example/"]}',
            "spider: Input should be 'eurlex', 'news', 'blog' or 'site'",
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
            context=context, command=[sys.executable, "-m", "crawlers", "site"], extras=extras, cwd=str(ROOT)
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
    assert row.keys() == CRAWLS.keys()
    assert (row["source"], row["new"], json.loads(row["failed"])) == ("site", 1, {"status 404": 1})
    assert row["requests"] == 4


def test_dagster_sees_wrong_input_as_a_failure(tmp_path, monkeypatch):
    success, messages = pipes(tmp_path, monkeypatch, {"name": "site", "source": {"reader": "folder"}})
    assert (success, messages) == (False, [])


def test_scrapy_commands_work(tmp_path, monkeypatch):
    scrapy = [sys.executable, "-m", "scrapy"]
    listed = subprocess.run([*scrapy, "list"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert listed.stdout.split() == ["blog", "eurlex", "news", "site"]
    with serving() as site:
        site["/"] = Reply(article("A"))
        monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
        command = [
            *scrapy,
            "crawl",
            "news",
            "-a",
            f"start={site.url('/')}",
            "-s",
            "DOWNLOAD_DELAY=0",
            "-s",
            "ALLOW_PRIVATE=1",
        ]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    source = crawling(tmp_path, "news", spider="news", start=["https://a.example/"])
    assert [page["fields"]["headline"] for page in source.pages().values()] == ["A"]
