"""A stored page, to be compared with its document: blocks of HTML, text of a PDF or of a text file."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rag_assay.assets.cleaning.blocks import read_blocks
from rag_assay.assets.cleaning.draft import UnusablePage, decode_text
from rag_assay.assets.cleaning.fidelity import BlockOutcome, PageComparison
from rag_assay.assets.cleaning.page_cleaner import HTML, draft_of
from rag_assay.assets.cleaning.tree import parse_page
from rag_assay.warehouse.pages import decode, media_type

MOST_BYTES = 5_000_000  # of a web page whose blocks are read
MOST = 200_000  # characters of a text
_PDFIUM = threading.Lock()  # it is not thread-safe


@dataclass(frozen=True)
class PageSource:
    """What a page holds; text: of HTML its markup, "" of a file that is no text

    is_counted: the outcomes are those that `metadata.fidelity` counts
    """

    media_type: str
    size: int
    text: str
    outcomes: tuple[BlockOutcome, ...] = ()
    is_counted: bool = False


def page_source(page: Mapping[str, Any], body: bytes, document: str) -> PageSource:
    """page: a row of the manifest (`schemas.PAGES`); document: its text, "" where it gave none"""
    kind = media_type(page["content_type"])
    if kind == "application/pdf":
        return PageSource(kind, len(body), _text_of_pdf(body))
    if kind not in HTML:
        return PageSource(kind, len(body), _text_of_file(body, page["content_type"]))
    html, _encoding = decode(body, page["content_type"])
    found = PageSource(kind, len(body), html[:MOST])
    if len(body) > MOST_BYTES:
        return found
    try:
        comparison = draft_of(page, body).comparison
    except UnusablePage:
        comparison = None
    if comparison is not None:
        return replace(found, outcomes=tuple(comparison.outcomes()), is_counted=True)
    root = parse_page(html)
    blocks = PageComparison(root, (), document, (), read_blocks(root))
    return replace(found, outcomes=tuple(one for one in blocks.outcomes() if not one.counted))


def _text_of_file(body: bytes, content_type: str | None) -> str:
    try:
        return decode_text(body[:MOST], content_type)
    except UnusablePage:
        return ""


def _text_of_pdf(body: bytes) -> str:
    import pypdfium2 as pdfium

    def pages(document: pdfium.PdfDocument) -> Iterator[str]:
        left = MOST
        for page in document:
            if left > 0:
                shown = page.get_textpage()
                text = shown.get_text_range(0, min(left, shown.count_chars()))
                left -= len(text)
                yield text.replace("\r\n", "\n").strip()

    with _PDFIUM:
        try:
            with pdfium.PdfDocument(body) as document:
                return "\n\n\n".join(pages(document))
        except pdfium.PdfiumError:
            return ""
