from __future__ import annotations

import json
from pathlib import Path

import pytest

from rag_assay.assets.cleaning.language import detect, detector, language_of
from rag_assay.assets.cleaning.page_cleaner import clean_page
from rag_assay.warehouse.pages import write_body
from rag_assay.warehouse.paths import Home

ENGLISH = (
    "The harbour office opens at seven in the morning. Pilots report by radio before they pass the buoy."
)
GERMAN = (
    "Das Hafenamt öffnet morgens um sieben Uhr. Lotsen melden sich über Funk, bevor sie die Tonne passieren."
)
FRENCH = "Le bureau du port ouvre à sept heures du matin. Les pilotes appellent par radio avant la bouée."


@pytest.fixture
def installed() -> None:
    pytest.importorskip("py3langid")


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(("text", "language"), [(ENGLISH, "en"), (GERMAN, "de"), (FRENCH, "fr")])
def test_the_language_of_a_text(text: str, language: str) -> None:
    assert detect(text) == language
    assert detector() is not None


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("text", ["", "Hi", "12 345 67.8", "— — —"])
def test_of_next_to_nothing_no_language_is_said(text: str) -> None:
    assert detect(text) is None


def test_source_and_page_come_before_detection() -> None:
    assert language_of("de", "en", ENGLISH) == ("de", "source")
    assert language_of(None, "en", GERMAN) == ("en", "page")


@pytest.mark.usefixtures("installed")
def test_what_nobody_says_is_detected() -> None:
    assert language_of(None, None, GERMAN) == ("de", "detected")
    assert language_of(None, None, "12") == (None, None)


@pytest.mark.parametrize(
    ("source", "lang", "expected"),
    [("de", "en", ("de", "source")), (None, "en", ("en", "page")), (None, "", ("en", "detected"))],
)
def test_a_document_says_where_its_language_is_from(
    tmp_path: Path, source: str | None, lang: str, expected: tuple[str, str]
) -> None:
    if expected[1] == "detected":
        pytest.importorskip("py3langid")
    html = f'<html lang="{lang}"><body><article><p>{ENGLISH} {ENGLISH[:40]}</p></article></body></html>'
    home = Home(tmp_path)
    page = {
        "url": "u",
        "content_type": "text/html",
        "sha256": write_body(home, html.encode()),
        "fields": "{}",
    }
    document = clean_page("source", page, home, source).document
    assert document is not None
    assert (document["language"], json.loads(document["metadata"])["language_source"]) == expected
