"""Titles without the site's name, persons before organisations, the standfirst that a reader sees."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rag_assay.assets.cleaning.article import clean_article, shown_standfirst
from rag_assay.assets.cleaning.draft import DocumentDraft, UnusablePage
from rag_assay.assets.cleaning.page_facts import names_in
from rag_assay.assets.cleaning.tree import parse_page

TITLE = "Low tide at noon"
TEXT = "".join(
    f"<p>Sentence {number} tells how the {number} boats of the harbour came home that day.</p>"
    for number in range(12)
)
STANDFIRST = "Why the gauge of the old harbour shows less water than it did when the quay was built."


def clean(
    body: str, head: str = "", node: Any = None, url: str = "https://harbour.example/low-tide"
) -> DocumentDraft:
    block = f'<script type="application/ld+json">{json.dumps(node)}</script>' if node else ""
    page = f"<html><head>{head}{block}</head><body>{body}</body></html>"
    return clean_article(page.encode(), "text/html", url)


# ------------------------------------------------------------------------------------------- titles


@pytest.mark.parametrize(
    "shown",
    [
        f"{TITLE} - The Tide Gauge", f"{TITLE} | News | The Tide Gauge", f"{TITLE} :: The Tide Gauge",
        f"{TITLE} « The Tide Gauge", f"{TITLE} — The Tide Gauge", f"{TITLE} | 03.05.2024", f"{TITLE} / Tides",
    ],
)  # fmt: skip
@pytest.mark.parametrize("clean_one", ["h1", "headline"])
def test_what_stands_behind_a_title_that_is_clean_elsewhere_is_cut(shown: str, clean_one: str) -> None:
    head = f'<title>{shown}</title><meta property="og:title" content="{shown}">'
    node = {"@type": "NewsArticle", "headline": TITLE if clean_one == "headline" else shown}
    heading = f"<h1>{TITLE}</h1>" if clean_one == "h1" else ""
    assert clean(f"<article>{heading}{TEXT}</article>", head, node).title == TITLE
    if clean_one == "h1":
        assert clean(f"<article>{heading}{TEXT}</article>", head).title == TITLE


@pytest.mark.parametrize(
    "shown", [f"The Tide Gauge: {TITLE}", f"The Tide Gauge | {TITLE}", f"{TITLE} - The Tide Gauge"]
)
@pytest.mark.parametrize(
    ("head", "node", "url"),
    [
        ('<meta property="og:site_name" content="The Tide Gauge">', None, ""),
        ('<meta name="application-name" content="the tide gauge">', None, ""),
        ("", {"@type": "WebSite", "name": "The Tide Gauge"}, ""),
        ("", {"@type": "WebPage", "publisher": {"@type": "Organization", "name": "The Tide Gauge"}}, ""),
    ],
)
def test_the_names_of_the_site_are_cut_on_either_side(shown: str, head: str, node: Any, url: str) -> None:
    body = f"<h1>The Tide Gauge</h1><article><h2>{TITLE}</h2>{TEXT}</article>"
    known = clean(f"<h1>{TITLE}</h1><article>{TEXT}</article>", f"<title>{shown}</title>{head}", node, url)
    assert known.title == TITLE
    if ":" not in shown:  # without a heading, a colon tells no site from a kicker
        assert clean(body, f"<title>{shown}</title>{head}", node, url).title == TITLE


def test_the_name_of_the_host_is_one_of_the_site() -> None:
    head = f"<title>{TITLE} - Harbour.example</title>"
    assert clean(f"<article>{TEXT}</article>", head).title == TITLE
    assert clean(f"<article>{TEXT}</article>", f"<title>{TITLE} - Harbour</title>").title == TITLE


@pytest.mark.parametrize(
    "title", ["Tides: low - and lower still", "Ebb - and then?", "Whitby: the harbour at dawn"]
)
def test_a_dash_or_a_colon_of_the_title_itself_stays(title: str) -> None:
    head = f'<title>{title}</title><meta property="og:site_name" content="The Tide Gauge">'
    assert clean(f"<article>{TEXT}</article>", head).title == title
    assert clean(f"<h1>{title}</h1><article>{TEXT}</article>", head).title == title


# ------------------------------------------------------------------------------------------- authors


THE_GAUGE = {"@type": "Organization", "name": "The Gauge"}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Ada Kern und Ben Au, dpa", ["Ada Kern", "Ben Au", "dpa"]),
        ("Von Ada Kern, Ben Au und Cleo van der Meer", ["Ada Kern", "Ben Au", "Cleo van der Meer"]),
        ("By Ada Kern and Ben Au", ["Ada Kern", "Ben Au"]),
        ("Ada Kern & Ben Au", ["Ada Kern", "Ben Au"]),
        ("Ada Kern; Ben Au", ["Ada Kern", "Ben Au"]),
        ("Ada Kern, Frankfurt", ["Ada Kern"]),
        ("Ada Kern, Jr., Ben Au", ["Ada Kern, Jr.", "Ben Au"]),
        ("Kern, Ada", ["Kern, Ada"]),
        ("dpa/AFP", ["dpa/AFP"]),
        ("dpa, AFP", ["dpa", "AFP"]),
        ("Institute of Law and Public Order", ["Institute of Law and Public Order"]),
        ("Sturm und Drang", ["Sturm und Drang"]),
        ("Bund und Länder", ["Bund und Länder"]),
        ("https://harbour.example/ada", []),
        ("", []),
    ],
)  # fmt: skip
def test_bylines_are_parted_into_names(text: str, names: list[str]) -> None:
    assert names_in(text) == names


@pytest.mark.parametrize(
    ("author", "head", "body", "names"),
    [
        (THE_GAUGE, '<meta name="author" content="Ada Kern">', "", ("Ada Kern",)),
        ("The Gauge", "", '<p class="byline">By Ada Kern and Ben Au</p>', ("Ada Kern", "Ben Au")),
        ("The Gauge", "", "<p>Von <a href='/ada'>Ada Kern</a></p>", ("Ada Kern",)),
        ("a.kern@gauge.example", "", '<span itemprop="author">Ada Kern</span>', ("Ada Kern",)),
        (["The Gauge", {"@type": "Person", "name": "Ada Kern"}], "", "", ("Ada Kern",)),
        ({"@type": "Person", "name": "Ada Kern und Ben Au, dpa"}, "", "", ("Ada Kern", "Ben Au", "dpa")),
        ({"@type": "Organization", "name": "Kern und Au"}, "", "", ("Kern und Au",)),
        ({"@type": "Organization", "name": "dpa"}, "", '<p class="author">Ada Kern</p>', ("dpa",)),
        (THE_GAUGE, "", "", ("The Gauge",)),
    ],
)  # fmt: skip
def test_a_person_who_is_named_comes_before_the_site(
    author: Any, head: str, body: str, names: tuple[str, ...]
) -> None:
    head += '<meta property="og:site_name" content="The Gauge">'
    node = {"@type": "NewsArticle", "headline": TITLE, **({"author": author} if author else {})}
    assert clean(f"<article><h1>{TITLE}</h1>{body}{TEXT}</article>", head, node).authors == names


# ------------------------------------------------------------------------------------------- standfirst

PHOTOGRAPH = "The gauge at the quay, on a photograph of ours from last year."
SAID = f'<meta name="description" content="{STANDFIRST}">'


@pytest.mark.parametrize(
    ("body", "opening"),
    [
        (f"<header><h1>{TITLE}</h1><p>{STANDFIRST}</p></header>{TEXT}", STANDFIRST),
        (f'<h1>{TITLE}</h1><div class="lead"><span>{STANDFIRST}</span></div>{TEXT}', STANDFIRST),
        (
            f"<h1>{TITLE}</h1><div><span>Whitby.</span> <span>{STANDFIRST}</span></div>{TEXT}",
            STANDFIRST,
        ),
    ],
)
def test_a_standfirst_above_the_text_opens_it(body: str, opening: str) -> None:
    draft = clean(f"<article>{body}</article>", SAID)
    assert opening in draft.text.split("\n")[0]
    assert draft.text.count(STANDFIRST) == 1


@pytest.mark.parametrize(
    "body",
    [
        f"<figure><img src=x.png><figcaption>{STANDFIRST}</figcaption></figure>{TEXT}",
        f"{TEXT}<footer><p>{STANDFIRST}</p></footer>",
        f'{TEXT}<section class="more"><div><p>{STANDFIRST}</p></div></section>',
        f'<nav><ul><li>{STANDFIRST}</li></ul></nav>{TEXT}',
        f'<a href="/other"><p>{STANDFIRST}</p></a>{TEXT}',
        f'<div hidden><p>{STANDFIRST}</p></div>{TEXT}',
        f'<div style="display: none"><p>{STANDFIRST}</p></div>{TEXT}',
        TEXT,
    ],
)  # fmt: skip
def test_a_description_that_stands_elsewhere_is_not_put_into_the_text(body: str) -> None:
    page = f"<article><h1>{TITLE}</h1>{body}</article>"
    text = "\n".join(TEXT.removeprefix("<p>").split("</p><p>"))
    assert shown_standfirst(parse_page(page), [STANDFIRST], text) is None
    assert clean(page, SAID).text.count(STANDFIRST) <= 1


def test_the_standfirst_is_found_by_any_of_the_descriptions() -> None:
    node = {
        "@type": "NewsArticle",
        "headline": TITLE,
        "description": "The gauge at the quay, on a photograph of ours from last year.",
    }
    body = f"<article><h1>{TITLE}</h1><p>{STANDFIRST} It is the moon.</p>{TEXT}</article>"
    cut = f'<meta property="og:description" content="{STANDFIRST[:70]}…">'
    assert clean(body, cut, node).text.startswith(f"{STANDFIRST} It is the moon.")


# ------------------------------------------------------------------------------------------- statements


def test_an_article_that_holds_statements_alone_does_not_hide_the_text() -> None:
    facts = '<article itemscope><meta itemprop="date" content="2024-05-03"><link href="/"></article>'
    short = "<p>The harbour master reads the tide gauge at six and at noon, and writes it down.</p>"
    draft = clean(f"{facts}<h1>{TITLE}</h1><div>{short}</div>")
    assert (draft.text, draft.published_at) == (short[3:-4], "2024-05-03")
    assert len(clean(f"{facts}<h1>{TITLE}</h1><div>{TEXT}</div>").text.split()) > 100
    with pytest.raises(UnusablePage, match="0 words in the page's own content"):
        clean(f"<header>{short}</header><article></article><footer>{short}</footer>")
