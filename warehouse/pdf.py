"""Checks PDF files and says why one cannot be used."""

from __future__ import annotations

import contextlib
from typing import Any

MAX_PAGES = 2000
_TAIL = 2048  # bytes at the end of a file in which its end is marked
_PASSWORD = 4  # FPDF_ERR_PASSWORD
_SCANS = "no text: images only; the source option `ocr` reads them"


def why_not(body: bytes, *, scans: bool = False) -> str | None:
    """scans: images count as text"""
    import pypdfium2 as pdfium

    try:
        document = pdfium.PdfDocument(body)
    except pdfium.PdfiumError as error:
        if getattr(error, "err_code", None) == _PASSWORD or "password" in str(error).lower():
            return "encrypted: it asks for a password"
        return "damaged: it cannot be opened" if _has_end(body) else "truncated: the file ends early"
    with contextlib.closing(document):
        if not _has_end(body):  # PDFium repairs such files, without the pages that are missing
            return "truncated: the file ends early"
        if len(document) > MAX_PAGES:
            return f"more than {MAX_PAGES} pages: {len(document)}"
        reason = _without_text(document)
        return None if scans and reason == _SCANS else reason


def _has_end(body: bytes) -> bool:
    tail = body.rstrip(b"\0\t\r\n ")[-_TAIL:]  # as downloads are filled up to whole blocks
    return b"%%EOF" in tail or b"startxref" in tail


def _without_text(document: Any) -> str | None:
    import pypdfium2 as pdfium

    loaded = 0
    for number in range(len(document)):
        with (
            contextlib.suppress(pdfium.PdfiumError),  # one broken page does not spoil the others
            contextlib.closing(document[number]) as page,
            contextlib.closing(page.get_textpage()) as text,
        ):
            if text.get_text_bounded().strip():
                return None
            loaded += 1
    return _SCANS if loaded else "damaged: none of its pages can be read"
