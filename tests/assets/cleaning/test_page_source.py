"""A page is shown beside its document with marks that are the counts of the document."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from rag_assay.assets.cleaning.page_cleaner import draft_of
from rag_assay.assets.cleaning.page_source import MOST_BYTES, page_source
from tests.assets.cleaning.pdf_writer import Sheet, pdf
from tests.assets.cleaning.test_fidelity import PAGE, PARAGRAPH

POST = f"""<html><body><article class="h-entry post"><h1>Fees</h1><p>{PARAGRAPH}</p>
<h2>Berths</h2><p>{PARAGRAPH}</p><ul><li>A berth costs twelve pounds.</li></ul>
<p>{PARAGRAPH} <img src=a.png alt="A map of all the quays"></p></article></body></html>"""


def page(kind: str, **fields: str) -> dict[str, Any]:
    return {"url": "https://x.example/", "content_type": kind, "fields": json.dumps(fields)}


@pytest.mark.parametrize(
    ("html", "fields"), [(PAGE, {}), (PAGE, {"content": "body"}), (POST, {}), (POST, {"content": "p"})]
)
def test_the_marked_blocks_are_those_that_are_counted(html: str, fields: dict[str, str]) -> None:
    row = page("text/html", **fields)
    draft = draft_of(row, html.encode())
    found = page_source(row, html.encode(), draft.text)
    assert found.is_counted
    for at, kept in enumerate([{True, False}, {True}]):
        marked = Counter(one.counted for one in found.outcomes if one.counted and one.is_kept in kept)
        counts = draft.metadata.get("fidelity", {})
        assert +marked == +Counter({kind: n[at] for kind, n in counts.items() if kind != "formulas"})


def test_blocks_beside_the_text_are_shown_and_not_counted() -> None:
    found = page_source(page("text/html"), PAGE.encode(), PARAGRAPH)
    by_text = {one.text: one for one in found.outcomes}
    assert (by_text["Menu"].counted, by_text["Menu"].is_kept) == ("", False)
    assert (by_text["Fees"].counted, by_text["Fees"].is_kept) == ("headings", True)
    (lost,) = [
        one for one in page_source(page("text/html"), POST.encode(), "").outcomes if one.kind == "image"
    ]
    assert (lost.text, lost.is_kept) == ("A map of all the quays", False)


def test_a_page_without_a_document_or_too_large_for_blocks_has_its_markup() -> None:
    short = page_source(page("text/html"), b"<html><body><p>No.</p></body></html>", "")
    assert "<p>No.</p>" in short.text
    large = page_source(page("text/html"), b"<p>x</p>" * (MOST_BYTES // 8 + 1), "")
    assert (large.outcomes, large.is_counted, large.text[:8]) == ((), False, "<p>x</p>")


def test_files_are_shown_as_the_text_that_they_hold() -> None:
    sheet = Sheet()
    sheet.put(72, 720, "Opening hours of the harbour")
    assert page_source(page("application/pdf"), pdf(sheet), "").text == "Opening hours of the harbour"
    assert page_source(page("application/pdf"), b"no PDF", "").text == ""
    assert page_source(page("text/markdown"), b"# Fees", "").text == "# Fees"
    assert page_source(page("application/vnd.ms-excel"), bytes(range(256)), "").text == ""
