"""PDF files: their text in reading order, with headings as sections, by PDFium."""

from __future__ import annotations

from rag_assay.assets.cleaning.draft import DocumentDraft, UnusablePage
from rag_assay.assets.cleaning.outline import OutlineBuilder
from rag_assay.assets.cleaning.pdf.columns import furniture, lines_of
from rag_assay.assets.cleaning.pdf.glyphs import PdfText, read_pdf
from rag_assay.assets.cleaning.pdf.paragraphs import Paragraph, headings, is_title, paragraphs
from rag_assay.assets.cleaning.written_dates import written_date
from rag_assay.warehouse.pdf import why_not

_TITLE_LENGTH = 300
_HEAD = 300  # characters in which the date of a document stands, if it is its own


def clean_pdf(body: bytes) -> DocumentDraft:
    """Extract text, headings and pages of a PDF in reading order, without running headers and footers.

    Headings are found by size and weight; without any, each page is a section. `metadata` holds `pdf_pages`
    (their number), `page_starts` (offsets in the text), `pdf_created` and `scanned_pages` (numbers of pages
    that are images).
    """
    reason = why_not(body)
    if reason:
        raise UnusablePage(f"PDF: {reason}")
    pdf = read_pdf(body)
    parts = paragraphs(lines_of(pdf.pages, furniture(pdf.pages)))
    if not parts:
        raise UnusablePage("PDF: no text: nothing but running headers and footers")
    outline, starts = _put_together(parts, len(pdf.pages))
    title = pdf.title or _title(parts)
    day = written_date(title) or written_date(outline.text[:_HEAD])
    published = day if day and (pdf.created is None or day <= pdf.created) else None
    return DocumentDraft(
        text=outline.text,
        title=title,
        published_at=published,
        authors=pdf.authors,
        sections=tuple(outline.sections or _by_page(outline, starts)),
        metadata=_metadata(pdf, starts) | {"date_source": "text" if published else "none"},
        repaired=True,
    )


def _put_together(parts: list[Paragraph], pages: int) -> tuple[OutlineBuilder, list[int]]:
    levels = headings(parts)
    outline = OutlineBuilder()
    found: dict[int, int] = {}
    for place, part in enumerate(parts):
        level = levels.get(place)
        start = outline.add(part.text) if level is None else outline.begin(part.text, level)
        for page, offset in part.pages:
            found.setdefault(page, start + offset)
    outline.closed()
    starts, following = [0] * pages, outline.length
    for page in reversed(range(pages)):
        following = min(found.get(page, following), following)
        starts[page] = following
    if starts:
        starts[0] = 0
    return outline, starts


def _by_page(outline: OutlineBuilder, starts: list[int]) -> list[dict[str, object]]:
    text = outline.text
    ends = [*starts[1:], len(text)]
    return [
        {
            "heading": f"page {number}",
            "level": 1,
            "start": start,
            "end": start + len(text[start:end].rstrip()),
        }
        for number, (start, end) in enumerate(zip(starts, ends, strict=True), 1)
        if text[start:end].strip()
    ]


def _title(parts: list[Paragraph]) -> str:
    title = next((part for part in parts if is_title(part, parts)), parts[0])
    return title.text[:_TITLE_LENGTH]


def _metadata(pdf: PdfText, starts: list[int]) -> dict[str, object]:
    metadata = {"pdf_pages": len(pdf.pages), "page_starts": starts, "pdf_created": pdf.created}
    if pdf.scanned:
        metadata["scanned_pages"] = list(pdf.scanned)
    return {name: value for name, value in metadata.items() if value is not None}
