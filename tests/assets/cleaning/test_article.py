"""News and blog articles: pages written for these tests, and fundus' German ones where the data is there."""

from __future__ import annotations

import json
import logging
import time
from logging.handlers import BufferingHandler
from pathlib import Path

import pytest

from benchmarks.cleaning import measure_news
from rag_assay.assets.cleaning.article import clean_article
from rag_assay.assets.cleaning.draft import DocumentDraft, UnusablePage
from rag_assay.assets.cleaning.page_cleaner import clean_html
from rag_assay.warehouse.iso_dates import lenient_json

DATA = Path(__file__).resolve().parents[4] / "shared" / "data" / "fundus-de"
BODY = " ".join(f"Satz {number} berichtet vom Spiel am Samstag in der vollen Halle." for number in range(12))
TEASER = "Ein Abend, den in der kleinen Stadt am Fluss so bald niemand vergessen wird."


def page(
    node: object = None, head: str = "", extra: str = "", title: str = "Sieg in der Halle | Kurier"
) -> bytes:
    block = "" if node is None else f'<script type="application/ld+json">{json.dumps(node)}</script>'
    return (
        f'<html lang="de"><head><title>{title}</title>{block}{head}</head><body>'
        f'<nav><a href="/">Start</a></nav><main><article><h1>Sieg in der Halle</h1><p>{BODY}</p>'
        "<p>Danach feierten alle bis in den frühen Morgen weiter.</p>"
        f"{extra}</article></main><footer>Impressum</footer></body></html>"
    ).encode()


def clean(body: bytes) -> DocumentDraft:
    return clean_article(body, "text/html; charset=utf-8", "https://kurier.example/a")


def test_json_ld_wins_over_open_graph_and_meta_tags() -> None:
    node = {
        "@context": "https://schema.org",
        "@graph": [
            {"@type": "WebSite", "headline": "Der Kurier"},
            {
                "@type": ["NewsArticle"], "headline": "Halle bebt",
                "alternativeHeadline": "Sieg in der Halle",
                "datePublished": "2024-05-03T14:24:00Z", "dateModified": "2024-05-04T08:00:00+02:00",
                "author": [{"@type": "Person", "name": "Ada Kern"}, {"@type": "Person", "name": "Ben Au"}],
                "keywords": "Handball, Halle", "description": "Kurz gesagt",
            },
        ],
    }  # fmt: skip
    head = (
        '<meta property="og:title" content="Sieg in der Halle"><meta name="author" content="Redaktion">'
        '<meta property="article:published_time" content="2020-01-01T00:00:00Z">'
        '<meta name="keywords" content="anderes">'
    )
    draft = clean(page(node, head))
    assert (draft.title, draft.metadata["headline"]) == ("Halle bebt", "Halle bebt")
    assert (draft.published_at, draft.metadata["date_source"]) == ("2024-05-03T14:24:00+00:00", "json_ld")
    assert draft.metadata["modified_at"] == "2024-05-04T08:00:00+02:00"
    assert draft.authors == ("Ada Kern", "Ben Au")
    assert draft.keywords == ("Handball", "Halle")
    assert draft.metadata["description"] == "Kurz gesagt"
    assert draft.language == "de"


def test_news_keywords_win_over_all_other_keywords() -> None:
    head = '<meta name="news_keywords" content="Derby; Halle, derby"><meta name="keywords" content="Sport">'
    draft = clean(page({"@type": "NewsArticle", "headline": "X", "keywords": ["Y"]}, head))
    assert draft.keywords == ("Derby", "Halle")
    assert draft.metadata["news_keywords"] == ["Derby", "Halle"]


def test_without_structured_data_the_meta_tags_speak_and_the_site_is_cut_from_the_title() -> None:
    head = (
        '<meta property="article:published_time" content="2024-05-03T10:00:00+02:00">'
        '<meta name="author" content="Ada Kern">'
    )
    draft = clean(page(None, head))
    assert (draft.title, draft.published_at, draft.authors) == (
        "Sieg in der Halle",
        "2024-05-03T10:00:00+02:00",
        ("Ada Kern",),
    )


def test_a_kicker_before_the_headline_is_not_part_of_the_title() -> None:
    head = '<meta property="og:title" content="Die Halle feiert ihren Sieg">'
    node = {"@type": "NewsArticle", "headline": "Handball: Die Halle feiert ihren Sieg"}
    assert clean(page(node, head)).title == "Die Halle feiert ihren Sieg"


def test_where_the_whole_page_agrees_on_another_title_it_wins() -> None:
    head = '<meta property="og:title" content="Sieg in der Halle">'
    assert (
        clean(page({"@type": "NewsArticle", "headline": "sieg-handball-24"}, head)).title
        == "Sieg in der Halle"
    )


@pytest.mark.parametrize(
    "text",
    [
        '{"a": [1, 2,], "b": {"c": "x",},}',
        '<!--\n{"a": [1, 2], "b": {"c": "x"}}\n-->',
        '//<![CDATA[\n{"a": [1, 2], "b": {"c": "x"}};\n//]]>',
        '{"a": [1,\t2], "b": {"c": "x"\x01}}',
    ],
)  # fmt: skip
def test_json_is_read_as_pages_write_it(text: str) -> None:
    assert lenient_json(text) == {"a": [1, 2], "b": {"c": "x"}}


def test_a_broken_block_does_not_hide_a_whole_one() -> None:
    broken = '<script type="application/ld+json">{"@type": </script>'
    draft = clean(
        page({"@type": "BlogPosting", "headline": "Halle bebt wieder", "author": "Ada Kern"}, broken)
    )
    assert (draft.title, draft.authors) == ("Halle bebt wieder", ("Ada Kern",))


def test_a_teaser_that_is_shown_belongs_to_the_text_once() -> None:
    node = {"@type": "NewsArticle", "headline": "Halle bebt", "description": TEASER}
    shown = page(node).replace(b"<h1>", f'<aside class="intro"><p>{TEASER}</p></aside><h1>'.encode())
    draft = clean(shown)
    assert draft.text.count(TEASER) == 1
    assert draft.metadata["teaser"] == TEASER
    assert TEASER not in clean(page(node)).text  # said in the head only: no reader sees it


def test_lists_of_other_articles_are_left_out() -> None:
    links = "<ul><li><a href='/b'>Ganz andere Geschichte</a></li></ul>"
    extra = f"<p>Lesen Sie auch:</p>{links}<p>Am Montag geht es weiter.</p>"
    text = clean(page(extra=extra)).text
    assert "Am Montag geht es weiter." in text
    assert "Ganz andere Geschichte" not in text


def test_a_day_at_the_end_of_the_title_is_the_date() -> None:
    draft = clean(page(title="Sieg in der Halle | Sport | Kurier | 28.04.2023"))
    assert (draft.title, draft.published_at, draft.metadata["date_source"]) == (
        "Sieg in der Halle",
        "2023-04-28",
        "meta",
    )
    assert clean(page(title="Der Bericht vom 28.04.2023")).metadata["date_source"] != "meta"


def test_a_year_alone_is_no_date() -> None:
    assert clean(page(extra="<p>Copyright 2019 Kurier</p>")).published_at is None
    assert clean(page(extra="<p>Veröffentlicht am 1. Januar 2019</p>")).published_at == "2019-01-01"


@pytest.mark.parametrize("quote", ["", "'", '"'])
def test_the_day_of_a_time_element_counts_without_its_words_and_quotes(quote: str) -> None:
    published = f"<p><time datetime={quote}2019-01-05T10:00{quote}>Vor drei Tagen</time></p>"
    assert clean(page(extra=published)).published_at == "2019-01-05"


@pytest.mark.parametrize("tag", ["svg", "nav", "aside", "noscript"])
def test_elements_within_their_like_leave_nothing_behind(tag: str) -> None:
    noise = f"<{tag}>\n <b>Noise</b>\n</{tag}>"
    said = "The harbour master counts all boats of the summer each evening before the lamps are lit at pier"
    lines = "".join(f"<p>{said} <a href=x>\n {noise} Pier {pier}</a>.</p>" for pier in "ABCDEFG")
    head = '<meta property="og:type" content="article"><title>Piers</title>'
    opened, closed = 3 * f"<{tag}>", 3 * f"</{tag}>"
    whole = f"<html>{head}<body>{opened}Noise<p>{closed}<article>{lines}</article>"
    text = clean(whole.encode()).text
    assert text.splitlines() == [f"{said} Pier {pier}." for pier in "ABCDEFG"]


def test_headings_are_sections() -> None:
    one, two, three = (BODY.replace("Satz", word) for word in ("Absatz", "Teil", "Stück"))
    parts = f"<h2>Die Halle</h2><p>{one}</p><h3>Das Dach</h3><p>{two}</p><h2>Die Gäste</h2><p>{three}</p>"
    draft = clean(page(extra=parts))
    found = [(part["heading"], part["level"]) for part in draft.sections]
    assert found == [("Die Halle", 1), ("Das Dach", 2), ("Die Gäste", 1)]
    hall, roof, guests = (draft.text[part["start"] : part["end"]] for part in draft.sections)
    assert hall.startswith("Die Halle\nAbsatz 0")
    assert hall.endswith(roof)
    assert roof.startswith("Das Dach\nTeil 0")
    assert draft.text.endswith(guests)


def test_headings_stand_where_they_do_when_their_charset_was_wrong() -> None:
    draft = clean(page(extra=f"<h2>FuÃŸball</h2><p>{BODY.replace('Satz', 'Absatz fÃ¼r')}</p>"))
    (section,) = draft.sections
    assert section["heading"] == "Fußball"
    assert draft.text[section["start"] : section["end"]].startswith("Fußball\nAbsatz für 0")


def test_a_missing_date_says_so() -> None:
    draft = clean(page())
    assert (draft.published_at, draft.metadata["date_source"]) == (None, "none")


def test_the_extractors_write_nothing_into_the_log() -> None:
    from htmldate import validators

    log = BufferingHandler(99)
    logging.root.addHandler(log)
    validators.is_valid_format.cache_clear()  # which complains once a process
    clean(page())
    logging.root.removeHandler(log)
    assert [record.getMessage() for record in log.buffer] == []


def test_html_pages_go_to_the_cleaner_of_their_family() -> None:
    act = b'<p class="oj-doc-ti">DECISION</p><p class="oj-ti-art">Article 1</p><p>It is so.</p>'
    assert clean_html(act, "text/html", "").metadata["structure"] == [{"kind": "article", "number": "1"}]
    assert "structure" not in clean_html(page(), "text/html", "").metadata


@pytest.mark.skipif(not DATA.is_dir(), reason="shared/data/fundus-de is not there")
def test_german_news_pages() -> None:
    figures = measure_news(DATA)
    assert figures.pages >= 50
    assert figures.title >= 0.92
    assert figures.date == 1.0
    assert figures.f1 >= 0.965
    assert figures.authors >= 0.92
    assert figures.keywords_missed == ()


@pytest.mark.parametrize("body", [b"", b"<!-- nothing -->", b"<html></html>", b"\x00\x00", b"<p>" * 3000])
def test_a_page_of_nothing_is_refused_with_a_reason(body: bytes) -> None:
    with pytest.raises((UnusablePage, ValueError)):
        clean(body)


@pytest.mark.parametrize(
    "link", ["<a href='/p'>pier {}</a>", "<b>pier {}</b>", "<i><a href='/p'>pier {}</a></i>"]
)
def test_a_paragraph_of_thousands_of_inline_elements_takes_time_and_memory_by_its_length(link: str) -> None:
    def page(count: int) -> bytes:
        links = " and the ship ".join(link.format(number) for number in range(count))
        return (
            f"<body><article><h1>Piers</h1><p>{links} and so on.</p><p>The end.</p></article></body>".encode()
        )

    def seconds(count: int) -> float:
        begin = time.process_time()
        draft = clean_article(page(count), "text/html", "")
        assert f"pier {count - 1} and so on.\nThe end." in draft.text.replace("\n\n", "\n")
        return time.process_time() - begin

    seconds(10)
    assert seconds(6000) < 5 * seconds(2000) + 0.5  # quadratic: 9
