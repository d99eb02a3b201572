from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from rag_assay.warehouse.source import Source

BLOG: dict[str, Any] = {"spider": "blog", "start": ["https://blog.example/"]}


def test_a_spider_and_a_reader_have_their_defaults() -> None:
    source = Source(**BLOG)
    assert (source.delay, source.limits.pages, source.schedule) == (0.7, 10_000, "0 5 * * 1")
    assert source.date_by is None, "no model is asked unless the source says so"
    assert Source(reader="folder", path="memos").start == ()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({}, "a source has either a spider (with start URLs) or a reader (with a path)"),
        ({**BLOG, "reader": "folder", "path": "x"}, "either a spider (with start URLs) or a reader"),
        ({"spider": "blog"}, "a spider needs at least one URL in `start`"),
        ({"reader": "folder"}, "a reader needs a `path`"),
        ({"spider": "blog", "start": ["https://a.example/", "ftp://b.example/"]}, "not 'ftp://b.example/'"),
        ({"spider": "blog", "start": ["javascript:alert(1)"]}, "start URLs begin with http:// or https://"),
        ({"spider": "news", "start": ["32019L0944"]}, "not '32019L0944'"),
        ({"spider": "blog", "start": ["https://me:word@a.example/"]}, "a.example holds a user name"),
        ({"spider": "blog", "start": ["https://a.example:99999/"]}, "is not a URL: Port out of range"),
        ({"spider": "blog", "start": ["https:///x"]}, "names no host"),
        ({**BLOG, "pdf": True}, "`pdf` is for eurlex only, not for blog"),
        ({**BLOG, "spider": "forum"}, "must be 'eurlex', 'news', 'blog' or 'site'"),
        ({**BLOG, "spidr": "blog"}, "Extra inputs are not permitted"),
        ({**BLOG, "delay": -1}, "greater than or equal to 0"),
        ({**BLOG, "language": "German"}, "should match pattern"),
        ({**BLOG, "limits": {"pages": 0}}, "greater than or equal to 1"),
        ({**BLOG, "limits": {"bytes": 0}}, "greater than or equal to 1024"),
        ({**BLOG, "allow": ["a", "("]}, "'(' is not a regular expression: missing )"),
        ({**BLOG, "deny": ["*"]}, "'*' is not a regular expression: nothing to repeat"),
        ({**BLOG, "domains": ["https://blog.example/"]}, "domains are host names, such as example.org"),
        ({**BLOG, "domains": ["other.example"]}, "is not on one of the `domains`"),
        ({**BLOG, "content": "main"}, "`content` is for site only, not for blog"),
        ({**BLOG, "spider": "site", "content": "main["}, "'main[' is not a CSS selector"),
        ({**BLOG, "date_by": {"model": ""}}, "at least 3 characters"),
        ({**BLOG, "date_by": {"modl": "openai/x"}}, "Extra inputs are not permitted"),
        ({**BLOG, "date_by": {"model": "openai/x", "api_base": "localhost"}}, "begins with http://"),
        ({**BLOG, "lines": True}, "`lines` is for text only, not for blog"),
        ({"reader": "pdf", "path": "x", "allow": ["x"]}, "`allow` is for eurlex, news, blog, site only"),
        ({"reader": "jsonl", "path": "x", "columns": {"body": "x"}}, "Input should be 'text', 'title'"),
    ],
)
def test_what_is_wrong_is_said(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Source(**spec)
    assert message in str(caught.value)


def test_hosts_are_those_of_the_start_urls_unless_domains_are_given() -> None:
    assert Source(**{**BLOG, "start": ["https://b.example/x", "http://a.example:80/"]}).hosts == (
        "a.example",
        "b.example",
    )
    assert Source(**BLOG, domains=("Example",)).hosts == ("example",)


def test_a_column_is_called_as_the_source_says() -> None:
    source = Source(reader="table", path="x", columns={"title": "headline"}, text_column="body")
    assert [source.column(name) for name in ("text", "title", "id")] == ["body", "headline", "id"]


def test_celex_numbers_are_start_urls_of_eurlex() -> None:
    acts = {"spider": "eurlex", "start": ["32019L0944", "celex:02012L0027-20190101"]}
    host = "https://eur-lex.europa.eu/legal-content"
    assert Source(**acts).start == (
        f"{host}/EN/TXT/HTML/?uri=CELEX:32019L0944",
        f"{host}/EN/TXT/HTML/?uri=CELEX:02012L0027-20190101",
    )
    assert Source(**{**acts, "language": "de"}).start[0] == f"{host}/DE/TXT/HTML/?uri=CELEX:32019L0944"
    assert Source(**acts, domains=("lex.example",)).hosts == ("lex.example",)
