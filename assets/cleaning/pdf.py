"""PDF files: their text, page by page, by PDFium."""

from __future__ import annotations

import re
from typing import Any

from assets.cleaning.draft import Draft, Unusable

_TITLE_LENGTH = 300


def clean_pdf(body: bytes) -> Draft:
    """Extract the text of all pages in the order of the file; each page is a section of its own.

    Raises:
        Unusable: PDFium cannot open the file (damaged, encrypted), or its pages hold no text (scanned
            images).
    """
    import pypdfium2 as pdfium

    try:
        document = pdfium.PdfDocument(body)
    except pdfium.PdfiumError as error:
        raise Unusable(f"PDF cannot be opened ({error})") from error
    try:
        pages = [_page_text(document[number]) for number in range(len(document))]
        title = str(document.get_metadata_dict().get("Title") or "").strip() or None
    finally:
        document.close()
    text, sections = "", []
    for number, page in enumerate(pages, 1):
        if page:
            start = len(text) + (2 if text else 0)
            text = f"{text}\n\n{page}" if text else page
            sections.append({"heading": f"page {number}", "level": 1, "start": start, "end": len(text)})
    if not text:
        raise Unusable("the PDF holds no text (scanned images?)")
    first_line = text.splitlines()[0][:_TITLE_LENGTH]
    return Draft(
        text=text, title=title or first_line, sections=tuple(sections), metadata={"pdf_pages": len(pages)}
    )


def _page_text(page: Any) -> str:
    text_page = page.get_textpage()
    try:
        raw = text_page.get_text_bounded()
    finally:
        text_page.close()
        page.close()
    lines = (re.sub(r"[ \t\u00a0]+", " ", line).strip() for line in raw.replace("\r", "").split("\n"))
    return "\n".join(line for line in lines if line)
