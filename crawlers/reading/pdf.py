"""PDF files: those that hold text, as they are; each other one with the reason why it cannot be used."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from crawlers.items import Page
from crawlers.reading import folder
from warehouse.source import Source

MAX_PAGES = 2000
_TAIL = 2048  # bytes at the end of a file in which its end is marked
_PASSWORD = 4  # FPDF_ERR_PASSWORD


def read(source: Source) -> Iterator[Page]:
    """Yield one page a PDF file, of a folder or the one file.

    Raises:
        InputError: the path is missing, or holds no PDF file.
    """
    for page in folder.read_kinds(source, (".pdf",)):
        reason = why_not(page.body) if page.body is not None else None
        if reason is None:
            yield page
        else:
            yield Page(page.url, page.requested_url, content_type=page.content_type, reason=reason)


def why_not(body: bytes) -> str | None:
    """Say why a PDF cannot be used: encrypted, truncated, damaged, of too many pages, without text."""
    import pypdfium2 as pdfium

    try:
        document = pdfium.PdfDocument(body)
    except pdfium.PdfiumError as error:
        if getattr(error, "err_code", None) == _PASSWORD or "password" in str(error).lower():
            return "encrypted: it asks for a password"
        return "damaged: it cannot be opened" if _has_end(body) else "truncated: the file ends early"
    try:
        if not _has_end(body):  # PDFium mends such files, without the pages that are missing
            return "truncated: the file ends early"
        if len(document) > MAX_PAGES:
            return f"more than {MAX_PAGES} pages: {len(document)}"
        return None if _has_text(document) else "no text: images only"
    finally:
        document.close()


def _has_end(body: bytes) -> bool:
    return b"%%EOF" in body[-_TAIL:] or b"startxref" in body[-_TAIL:]


def _has_text(document: Any) -> bool:
    import pypdfium2 as pdfium

    for number in range(len(document)):
        with contextlib.suppress(pdfium.PdfiumError):  # one broken page does not spoil the others
            page = document[number]
            text = page.get_textpage()
            try:
                if text.get_text_bounded().strip():
                    return True
            finally:
                text.close()
                page.close()
    return False
