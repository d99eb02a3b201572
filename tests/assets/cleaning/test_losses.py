"""No line of a page's text vanishes: code, lines, items, rows and quotes that come again."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from benchmarks.losses import Losses, as_page, blocks_of, blog_losses, posts_in, rendered
from rag_assay.assets.cleaning.article import clean_article
from rag_assay.assets.cleaning.blocks import Marks
from rag_assay.assets.cleaning.page_cleaner import clean_content
from rag_assay.assets.cleaning.tree import parse_page

DATA = Path(__file__).resolve().parents[4] / "shared" / "data" / "blog-18f"
PROSE = "".join(
    f"<p>Sentence {number} tells how the {number} boats of the harbour came home that day.</p>"
    for number in range(12)
)
CODE = """\
def tide(height):
    if height > 3:
        raise ValueError("the gauge of the harbour must be read once more by hand")

    return height

def ebb(height):
    if height < 1:
        raise ValueError("the gauge of the harbour must be read once more by hand")
\treturn height"""


def text_of(body: str) -> str:
    page = f"<html><body><article><h1>Tides</h1>{PROSE}{body}{PROSE}</article></body></html>"
    return clean_article(page.encode(), "text/html", "").text


def spans(code: str) -> str:
    """Write code as a highlighter does, each line in an element of its own."""
    return "\n".join(f'<span class="line"><span class="k">{line}</span></span>' for line in code.split("\n"))


ESCAPED = CODE.replace(">", "&gt;").replace("<", "&lt;")
NUMBERS = "\n".join(str(number) for number in range(1, 11))


@pytest.mark.parametrize(
    "body",
    [
        f"<pre>{ESCAPED}</pre>",
        f"<pre>\n\n{ESCAPED}\n\n</pre>",
        f'<pre><code class="language-python">{ESCAPED}\n</code></pre>',
        f'<div class="highlight"><pre>{spans(ESCAPED)}</pre></div>',
        f'<figure class="highlight"><pre><code>{ESCAPED}</code></pre></figure>',
        f"<pre>{ESCAPED.replace(chr(10), '<br>')}</pre>",
        f"<pre>{''.join(f'<div>{line}</div>' for line in ESCAPED.split(chr(10)))}</pre>",
        '<table class="rouge"><tr><td class="gutter"><pre>'
        f'{NUMBERS}</pre></td><td class="code"><pre>{ESCAPED}</pre></td></tr></table>',
        "<pre>"
        + "\n".join(f'<span class="lineno">{n}</span>{line}' for n, line in enumerate(ESCAPED.split("\n")))
        + "</pre>",
        f"<ul><li>As here:<pre>{ESCAPED}</pre></li></ul>",
        f"<blockquote><pre>{ESCAPED}</pre></blockquote>",
        f'<pre>{ESCAPED}<button class="copy">Copy</button></pre>',
    ],
)
def test_code_keeps_its_lines_its_blank_lines_and_its_indentation(body: str) -> None:
    assert f"\n{CODE}\n" in text_of(body)
    named = clean_content(f"<main>{body}</main>".encode(), "text/html", "", "main").text
    assert CODE in named


def test_two_equal_blocks_of_code_stay_two() -> None:
    assert text_of(f"<pre>{ESCAPED}</pre><p>And once more:</p><pre>{ESCAPED}</pre>").count(CODE) == 2


def test_a_page_that_holds_the_signs_for_white_space_keeps_them() -> None:
    marks = Marks("\U0001d300")
    assert marks.restored(marks.marked("a\n\tb  c")) == "a\n\tb  c"
    assert "\U0001d300" in text_of("<pre>\U0001d300\n  x</pre>")
    every = "".join(map(chr, range(0x1D300, 0x1D357)))
    assert every in text_of(f"<pre>{every}\nx</pre>")


LONG = "The ferry across the river runs every hour until the lamps of the quay are lit"
QUOTE = f"<blockquote><p>{LONG}</p></blockquote>"


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        (f"<p>{LONG}.</p><p>Then again:</p><p>{LONG}.</p>", {f"{LONG}.": 2}),
        (f"<ul><li>{LONG}</li><li>Other</li><li>{LONG}</li></ul>", {f"- {LONG}": 2, "- Other": 1}),
        (f"{QUOTE}<p>No.</p>{QUOTE}", {LONG: 2}),
        (f"<p>{LONG}<br>and nobody waits<br>{LONG}<br>and nobody waits</p>", {LONG: 2}),
        (f"<p>{LONG} = 1</p><p>{LONG} == 1</p>", {f"{LONG} = 1": 1, f"{LONG} == 1": 1}),
        (f"<p>{LONG}!</p><p>{LONG}?</p>", {f"{LONG}!": 1, f"{LONG}?": 1}),
        (
            f"<table><tr><td>{LONG}</td><td>1</td></tr><tr><td>{LONG}</td><td>1</td></tr></table>",
            {f"{LONG} | 1": 2},
        ),
    ],
)  # fmt: skip
def test_what_comes_twice_is_kept_twice(body: str, lines: dict[str, int]) -> None:
    found = [line.rstrip() for line in text_of(body).split("\n")]
    assert {line: found.count(line) for line in lines} == lines


@pytest.mark.parametrize(
    "body",
    [
        f"<ol><li>One</li></ol>{LONG} and <b>back</b> again.<p>Then.</p>",
        f"<p></p>\n{LONG} and <b>back</b> again.",
        f"<div><h2>Ferries</h2>{LONG} and <i>back</i> again.<ul><li>One</li></ul></div>",
        f"<pre>x = 1</pre>{LONG} and back again.",
    ],
)
def test_text_in_no_paragraph_is_kept_whole_and_once(body: str) -> None:
    text = text_of(f'<div class="text">{body}</div>')
    assert " ".join(text.split()).count(f"{LONG} and back again.") == 1


@pytest.mark.parametrize(
    "line",
    [
        "By the numbers",
        "By default it stays off",
        "Von Beginn an war der Hafen voll",
        "Published research on tides",
        "Stand der Dinge",
    ],
)
def test_headings_that_begin_as_a_byline_or_a_stamp_does_are_kept(line: str) -> None:
    page = f"<html><body><article><h1>Tides</h1><h2>{line}</h2>{PROSE}</article></body></html>"
    assert line in clean_article(page.encode(), "text/html", "").text.split("\n")


@pytest.mark.parametrize(
    "line",
    [
        "See also our list of tools for the harbour",
        "Read more about the tides in the second part of this series.",
        "Zum Thema Gezeiten schweigt der Hafen.",
        "Related work on tides is older than the harbour",
    ],
)
def test_sentences_that_begin_as_a_list_of_other_articles_does_are_kept(line: str) -> None:
    assert line in text_of(f"<p>{line}</p><ul><li>One of our own points</li></ul>").split("\n")


def test_losses_are_counted_by_kind() -> None:
    losses = Losses()
    blocks = [("paragraph", "One two three."), ("code", "x = 1\n\ny = 2"), ("table", "a b")]
    losses.compare(blocks, "Menu\nOne three.\nx = 1\ny = 2", [("navigation", "menu home")])
    assert losses.lost == {"paragraph": 1, "table": 2}
    assert losses.words == {"paragraph": 3, "code": 4, "table": 2}
    assert losses.added == {"navigation": 1, "other words": 0}
    assert (losses.code_lines, losses.code_lines_lost) == (3, 1), "the blank line is missing"


def test_a_lost_post_is_named(tmp_path: Path) -> None:
    posts = [
        {"id": name, "title": "T", "date": "2024-05-03", "authors": ["Ada Kern"], "body_markdown": body}
        for name, body in (("whole", "Tides rise.\n\n" * 20), ("none", "![](x.png)"))
    ]
    packed = gzip.compress("\n".join(map(json.dumps, posts)).encode())
    (tmp_path / "posts.jsonl.gz").write_bytes(packed)
    found = blog_losses(tmp_path)["blog posts as pages"]
    assert found.texts == 1
    assert [one.partition(" ")[0] for one in found.dropped] == ["none"]
    assert found.lost.total() == 0


@pytest.mark.skipif(not DATA.is_dir(), reason="shared/data/blog-18f is not there")
def test_real_posts_lose_no_code() -> None:
    shown = (rendered(body) for _post, body in posts_in(DATA))
    with_code = [body for body in shown if "<pre>" in body]
    assert len(with_code) == 26
    losses = Losses()
    for body in with_code:
        blocks = list(blocks_of(parse_page(f"<body>{body}</body>")))
        losses.compare(blocks, clean_article(as_page("T", "", body), "text/html", "").text)
    assert losses.code_lines > 400
    assert losses.lost["code"] == 0
    assert losses.code_lines_lost <= 1, "a sign of no width at the beginning of a line"
