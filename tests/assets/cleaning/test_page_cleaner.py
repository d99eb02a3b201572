from __future__ import annotations

import gzip
import json
import random
import struct
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import ftfy
import polars as pl
import pytest

from rag_assay.assets.cleaning import page_cleaner
from rag_assay.assets.cleaning.batches import Cleaning, Known
from rag_assay.assets.cleaning.page_cleaner import clean_html
from rag_assay.assets.cleaning.unicode import repair_encoding
from rag_assay.warehouse.pages import write_body
from rag_assay.warehouse.parquet import frame
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import DOCUMENTS, DROPPED, PAGES

SAMPLE = Path(__file__).parents[3] / "crawlers" / "sample_site"
STORY = (
    "The harbour office opens at seven in the morning. A mooring costs twelve pounds a night in summer, and "
    "eight in winter. Pilots report by radio before they pass the outer buoy, day or night."
)


def article(body: str, head: str = "", lang: str = "en") -> str:
    top = f'<!DOCTYPE html><html lang="{lang}"><head><title>Harbour</title>{head}</head>'
    return f"{top}<body>{body}</body></html>"


def page(
    home: Home, url: str, body: bytes | str, content_type: str = "text/html", **fields: Any
) -> dict[str, object]:
    data = body.encode() if isinstance(body, str) else body
    return {
        "url": url,
        "content_type": content_type,
        "sha256": write_body(home, data),
        "size": len(data),
        "fields": json.dumps(fields),
    }


def cleaned(
    home: Home, *pages: dict[str, object], language: str | None = None
) -> tuple[dict[str, Any], dict[str, str]]:
    """URL -> document, and URL -> why there is none."""
    cleaning = Cleaning("source", home, language, home.root / "parts")
    batches = list(cleaning.run(frame(list(pages), PAGES), Known(), lambda *_: None))
    documents = pl.concat([batch.documents for batch in batches])
    dropped = pl.concat([batch.dropped for batch in batches])
    assert documents.schema == pl.Schema(DOCUMENTS)
    assert dropped.schema == pl.Schema(DROPPED)
    found = {row["url"]: row for row in documents.iter_rows(named=True)}
    return found, dict(dropped.select("url", "reason").iter_rows())


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_html_gives_its_text_and_facts(home: Home) -> None:
    time = '<meta property="article:published_time" content="2024-05-01">'
    head = f'<meta name="author" content="Ada Pilot">{time}'
    html = article(
        f"<nav>Home About</nav><main><article><h1>Harbour</h1><p>{STORY}</p></article></main>", head
    )
    found, dropped = cleaned(home, page(home, "https://a.example/1", html))
    document = found["https://a.example/1"]
    assert not dropped
    assert "A mooring costs twelve pounds" in document["text"]
    assert "About" not in document["text"]
    assert document["language"] == "en"
    assert document["authors"] == ["Ada Pilot"]
    assert document["published_at"].startswith("2024-05-01")


def test_a_page_in_another_charset_than_it_says_is_read(home: Home) -> None:
    story = f"Der Lotse grüßt vom Außenhafen. {STORY} Die Gebühr beträgt fünf Euro."
    html = article(f"<article><p>{story}</p></article>", '<meta charset="utf-8">', "de").encode("cp1252")
    found, _ = cleaned(home, page(home, "u", html, "text/html; charset=utf-8"))
    assert "Der Lotse grüßt vom Außenhafen." in found["u"]["text"]
    assert "\ufffd" not in found["u"]["text"]


def test_text_and_beir_passages(home: Home) -> None:
    passage = json.dumps({"_id": "7", "title": "Buoys", "text": "Short."})
    found, dropped = cleaned(
        home,
        page(home, "notes.txt", f"# Harbour notes\r\n\r\n{STORY}\r\n", "text/plain"),
        page(home, "corpus.jsonl#7", passage, "application/x-beir+json", id="7", file="corpus.jsonl"),
        page(home, "corpus.jsonl#8", b"[1]", "application/x-beir+json", id="8"),
    )
    assert found["notes.txt"]["title"] == "Harbour notes"
    assert found["notes.txt"]["text"] == f"# Harbour notes\n\n{STORY}"
    assert found["corpus.jsonl#7"]["doc_id"] == "source:corpus.jsonl#7"
    assert found["corpus.jsonl#7"]["text"] == "Buoys\nShort.", "BEIR's passages count however short they are"
    assert "not a BEIR passage" in dropped["corpus.jsonl#8"]


def test_a_pdf_gives_its_text_with_its_articles_as_sections_and_where_its_pages_begin(home: Home) -> None:
    (path,) = SAMPLE.rglob("*.pdf")
    found, _ = cleaned(home, page(home, "act.pdf", path.read_bytes(), "application/pdf"))
    text, sections = found["act.pdf"]["text"], found["act.pdf"]["sections"]
    assert all(text[one["start"] : one["end"]].startswith(one["heading"]) for one in sections)
    articles = [one["heading"].split(" – ")[0] for one in sections if one["heading"].startswith("Article")]
    assert articles == [f"Article {number}" for number in range(1, 10)]
    facts = json.loads(found["act.pdf"]["metadata"])
    assert (facts["pdf_pages"], len(facts["page_starts"])) == (2, 2)
    assert text[facts["page_starts"][1] :].startswith("Article 5")
    assert "power stations with a capacity of 900 MW" in text, "a quote goes over the end of a line"


def test_what_gives_no_document_is_listed_with_the_reason(home: Home) -> None:
    import pypdfium2

    scan = pypdfium2.PdfDocument.new()
    scan.new_page(200, 200)
    scan.save(home.root / "scan.pdf")
    torn = page(home, "torn", article(f"<p>{STORY} It was torn.</p>"))
    home.body(str(torn["sha256"])).write_bytes(b"not gzip")
    found, dropped = cleaned(
        home,
        page(home, "good", article(f"<article><p>{STORY}</p></article>")),
        page(home, "empty", b""),
        page(home, "no text", article("<img src=x>")),
        page(home, "one word", "Hello.", "text/plain"),
        page(home, "blank", " \n ", "text/plain"),
        page(home, "image", b"\x89PNG", "image/png"),
        page(home, "untyped", b"bytes", ""),
        page(home, "broken.pdf", b"%PDF-1.7 and nothing more", "application/pdf"),
        page(home, "scan.pdf", (home.root / "scan.pdf").read_bytes(), "application/pdf"),
        torn,
    )
    assert set(found) == {"good"}
    expected = {
        "empty": " ",
        "no text": "no main text found",
        "one word": "too short: 1 word",
        "blank": "the file is empty",
        "image": "no reader for image/png",
        "untyped": "no reader for an unknown type",
        "broken.pdf": "PDF: truncated: the file ends early",
        "scan.pdf": "PDF: no text: images only; the source option `ocr` reads them",
        "torn": "the stored page is damaged",
    }
    assert set(dropped) == set(expected)
    assert all(expected[url] in dropped[url] for url in expected), dropped


@pytest.mark.parametrize(
    "error", [KeyError("x"), RecursionError(), AssertionError("odd tree"), SyntaxError("Empty")]
)
def test_a_page_that_breaks_the_parser_is_a_drop_and_the_others_go_on(
    home: Home, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    sound = clean_html

    def breaks(body: bytes, content_type: str | None, url: str, *more: Any) -> Any:
        if url == "bad":
            raise error
        return sound(body, content_type, url, *more)

    monkeypatch.setattr(page_cleaner, "clean_html", breaks)
    html = article(f"<article><p>{STORY}</p></article>")
    found, dropped = cleaned(home, page(home, "bad", html), page(home, "good", html))
    assert set(found) == {"good"}
    assert f"the HTML cannot be parsed ({type(error).__name__}" in dropped["bad"]


@pytest.mark.parametrize(
    "element", ["<div>", "<p><b>", "<table><tr><td>", "<ul><li>", '<div id="TexteOnly">']
)
def test_deeply_nested_html_ends_in_a_document_or_a_reason(home: Home, element: str) -> None:
    html = article(element * 6_000 + STORY)
    found, dropped = cleaned(home, page(home, "deep", html))
    assert set(found) ^ set(dropped) == {"deep"}


def test_a_tag_of_very_many_attributes_is_refused(home: Home) -> None:
    names = " ".join(f"a{number}=1" for number in range(100_000))  # each is compared with each: minutes
    _, dropped = cleaned(home, page(home, "many", article(f"<p {names}>{STORY}</p>")))
    assert "an element with more than 20000 attributes" in dropped["many"]
    script = f"<script>{'a = b; ' * 30_000}</script><p title='{'x=1 ' * 30_000}'>{STORY}</p>"
    found, _ = cleaned(home, page(home, "good", article(f"<article>{script}</article>")))
    assert STORY in found["good"]["text"]


def test_a_guessed_date_does_not_lie_after_the_page_was_fetched(home: Home) -> None:
    html = article(f"<article><h1>Harbour</h1><p>Published on 7 June 2031</p><p>{STORY}</p></article>")
    fetched = (
        {"fetched_at": datetime(2032, 1, 1, tzinfo=UTC)},
        {"fetched_at": datetime(2031, 1, 1, tzinfo=UTC)},
    )
    late, early = (cleaned(home, page(home, "u", html) | when)[0]["u"]["published_at"] for when in fetched)
    assert (late, early) == ("2031-06-07", None), "whatever day it is today"


def test_versions_follow_what_a_reader_sees(home: Home) -> None:
    def version(body: str, **fields: Any) -> tuple[str, str]:
        found, _ = cleaned(home, page(home, "u", body, "text/plain", **fields))
        return found["u"]["doc_id"], found["u"]["version"]

    first = version(STORY)
    assert version(STORY) == first
    assert version(f"{STORY}\n") == first, "the bytes differ, the document does not"
    assert version(STORY.replace("twelve", "thirteen"))[0] == first[0]
    assert version(STORY.replace("twelve", "thirteen"))[1] != first[1]
    assert version(STORY, title="Another title")[1] != first[1]


def test_unicode_is_brought_to_one_form(home: Home) -> None:
    text = f"Cafe\u0301 am Hafen.\x00 {STORY}"
    found, _ = cleaned(home, page(home, "u", text.encode(), "text/plain; charset=utf-8"))
    assert found["u"]["text"].startswith("Café am Hafen. The harbour")


# ------------------------------------------------------------------------------------------- content, dates


def test_the_element_that_the_source_names_is_the_text(home: Home) -> None:
    html = article(f"<p>{STORY}</p><div id=own><h2>Tides</h2><p>High water is shown by two balls.</p></div>")
    found, dropped = cleaned(
        home,
        page(home, "own", html, content="#own"),
        page(home, "other", article(f"<article><p>{STORY}</p></article>"), content="#own"),
    )
    assert found["own"]["text"] == "Tides\n\nHigh water is shown by two balls."
    assert [one["heading"] for one in found["own"]["sections"]] == ["Tides"]
    assert dropped == {"other": "`content` names nothing in this page: '#own'"}


def test_where_the_date_comes_from_is_never_missing(home: Home) -> None:
    passage = "application/x-beir+json"
    line = json.dumps({"title": "", "text": STORY})
    body = f"<article><h1>Harbour</h1><p>{STORY}</p></article>"
    ld = '<script type="application/ld+json">{"@type": "Article", "datePublished": "2024-05-03"}</script>'
    meta = '<meta property="article:published_time" content="2024-05-02">'
    act = "https://x.example/?uri=CELEX:02012L0027-20190101"
    (file,) = SAMPLE.rglob("*.pdf")
    found, _ = cleaned(
        home,
        page(home, "json_ld", article(body, ld)),
        page(home, "meta", article(body, meta)),
        page(home, "same", article(body, ld), published_at="2024-05-03T10:00:00"),
        page(home, "spider", article(body), published_at="2024-05-04"),
        page(home, "https://a.example/2024/05/05/harbour", article(body)),
        page(home, act, f"<p>{STORY}</p>", "text/plain"),
        page(home, "a.jsonl#1", line, passage, published_at="2024-05-06"),
        page(home, "a.jsonl#2", line, passage),
        page(home, "note", STORY, "text/plain"),
        page(home, "act.pdf", file.read_bytes(), "application/pdf"),
    )
    sources = {
        url: (row["published_at"], json.loads(row["metadata"])["date_source"]) for url, row in found.items()
    }
    assert sources == {
        "json_ld": ("2024-05-03", "json_ld"),
        "meta": ("2024-05-02", "meta"),
        "same": ("2024-05-03T10:00:00", "json_ld"),
        "spider": ("2024-05-04", "meta"),
        "https://a.example/2024/05/05/harbour": ("2024-05-05", "url"),
        act: ("2019-01-01", "celex"),
        "a.jsonl#1": ("2024-05-06", "file"),
        "a.jsonl#2": (None, "none"),
        "note": (None, "none"),
        "act.pdf": (None, "none"),
    }


# ------------------------------------------------------------------------------------------- empty pages

CHROME = (
    "<div class=c><p>This site sets one cookie, to remember that you have read this long notice.</p></div>"
    "<header><p>Harbour Digital</p><p>The blog of the harbour's own digital team, since 2019</p></header>"
    "<main>{}</main>"
    "<footer><p>Harbour Digital, Town Hall. Text under CC BY 4.0 unless we say otherwise.</p></footer>"
)
BYLINE = "<header><h1>Test</h1><p><time>28 April 2020</time> by <span>admin</span></p></header>"


def blog_page(path: str) -> bytes:
    return (SAMPLE / "blog" / "pages" / path / "index.html").read_bytes()


def test_the_test_page_of_the_sample_blog_is_dropped(home: Home) -> None:
    found, dropped = cleaned(home, page(home, "test", blog_page("2020/04/28/test")))
    assert not found
    assert dropped["test"].startswith("too short: 1 word")


def test_no_post_of_the_sample_blog_is_dropped(home: Home) -> None:
    posts = [
        path
        for path in (SAMPLE / "blog" / "pages").glob("20*/*/*/*/index.html")
        if path.parent.name != "test"
    ]
    assert len(posts) > 10
    found, dropped = cleaned(home, *(page(home, path.parent.name, path.read_bytes()) for path in posts))
    assert not dropped
    assert len(found) == len(posts)


@pytest.mark.parametrize(
    ("content", "kept"),
    [
        (f"<article>{BYLINE}<p>Hello.</p></article>", False),
        (f"<article>{BYLINE}<div></div></article>", False),
        ("<p>Coming soon.</p>", False),
        (f"<article>{BYLINE}<p>The ferry sails again from Monday.</p></article>", True),
        (f"<article>{BYLINE}</article><div><p>{STORY}</p></div>", True),  # the text stands beside the article
        (f"<article><header><h1>Harbour</h1><p>{STORY}</p></header></article>", True),  # all of it is a lead
        ("<article><p>Hello.</p></article>" + f"<article><p>{STORY}</p></article>", True),
    ],
)
def test_only_pages_without_content_of_their_own_are_dropped(home: Home, content: str, kept: bool) -> None:
    found, dropped = cleaned(home, page(home, "u", article(CHROME.format(content))))
    assert bool(found) == kept, dropped or found


def test_text_of_a_wrong_charset_is_repaired_and_right_text_kept() -> None:
    broken = "Der FuÃŸball-Club verlor in MÃ¼nchen mit eins zu drei."
    assert repair_encoding(broken) == "Der Fußball-Club verlor in München mit eins zu drei."
    assert repair_encoding("Größe, naïve – „fair“") == "Größe, naïve – „fair“"


@pytest.mark.parametrize("codec", ["utf-8", "latin-1", "cp1252", "cp1250", "cp1251", "mac-roman", "cp437"])
def test_lines_that_ftfy_is_spared_are_those_that_it_keeps(codec: str) -> None:
    lines = ["Fußball à la carte", "„Über“ – 5 €", "Größe: 3 µm", "voilà !", "naïve café", "Ünal", "—"]
    wrong = [line.encode().decode(codec, "ignore") for line in lines]
    wrong += [line.replace("\xa0", " ") for line in wrong]
    assert repair_encoding("\n".join(wrong)).split("\n") == [ftfy.fix_encoding(line) for line in wrong]


def jpeg() -> bytes:
    rows = b"".join(bytes([n * 7 % 256, n * 31 % 256, 0, 255 - n % 256]) for n in range(3000))
    return b"\xff\xd8\xff\xe0\x00\x10JFIF\x00" + rows


@pytest.mark.parametrize("kind", ["text/plain", "text/markdown", "text/x-rst"])
def test_bytes_that_are_no_text_are_no_document(home: Home, kind: str) -> None:
    generator = random.Random(7)
    noise = {
        "random": generator.randbytes(20_000),
        "short": generator.randbytes(300),
        "gzip": gzip.compress(generator.randbytes(5000)),
        "jpeg": jpeg(),
        "numbers": struct.pack("<4000I", *range(4000)),
        "sqlite": b"SQLite format 3\0" + bytes(4000),
    }
    text = f"{STORY} Größe, 12 £; {STORY}"
    good = {
        "utf-8": text.encode(),
        "cp1252": text.encode("cp1252"),
        "utf-16": text.encode("utf-16"),
        "torn": text.encode() + b"\xff\xfe\xff" + text.encode(),
        "japanese": ("港の事務所は午前七時に開く。 " * 30).encode("shift_jis"),
        "emoji": (f"{STORY} 👩‍🚒 ✅ ﷽ " * 3).encode(),
        "form feeds": text.replace(". ", ".\f\x1b[0m ").encode(),
    }
    pages = [page(home, name, body, kind) for name, body in {**noise, **good}.items()]
    found, dropped = cleaned(home, *pages)
    assert found.keys() == good.keys()
    assert dropped == dict.fromkeys(noise, "not text, but other bytes")
