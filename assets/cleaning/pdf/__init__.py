"""PDF files: their text in reading order, with headings as sections, by PDFium."""

from __future__ import annotations

from rag_assay.assets.cleaning.draft import DocumentDraft, UnusablePage
from rag_assay.assets.cleaning.outline import OutlineBuilder
from rag_assay.assets.cleaning.pdf.columns import lines_of
from rag_assay.assets.cleaning.pdf.furniture import furniture
from rag_assay.assets.cleaning.pdf.glyphs import PdfText, read_pdf
from rag_assay.assets.cleaning.pdf.headings import headings, is_title
from rag_assay.assets.cleaning.pdf.paragraphs import Paragraph, paragraphs
from rag_assay.assets.cleaning.written_dates import written_date
from rag_assay.warehouse.pdf import why_not

_TITLE_LENGTH = 300
_HEAD = 300  # characters in which the date of a document stands, if it is its own


def clean_pdf(body: bytes) -> DocumentDraft:
    """Extract text, headings and pages of a PDF.

    The text is in reading order, column by column; the lines of a paragraph are joined, running headers and
    footers left out. Headings are told by the size and weight of their letters, and become sections; without
    any, each page is a section of its own. `metadata` holds `pdf_pages`, how many there are, `page_starts`,
    where in the text each of them begins, `pdf_created`, when the file says that it was made, and
    `scanned_pages`, the numbers of those that are images, whose words are not in the text.

    Raises:
        Unusable: encrypted, truncated, damaged, of too many pages or characters, or without text.
    """
    reason = why_not(body)
    if reason:
        raise UnusablePage(f"PDF: {reason}")
    pdf = read_pdf(body)
    lines = lines_of(pdf.pages, furniture(pdf.pages))
    parts = paragraphs(lines)
    if not parts:
        raise UnusablePage("PDF: no text: nothing but running headers and footers")
    outline, starts = _put_together(parts, len(pdf.pages))
    title = pdf.title or _title(parts)
    published = _published(title, outline.text, pdf.created)
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
    """Return the text with its sections, and where each page begins in it; an empty one begins with the next.

    A paragraph that goes on over a page break lies on both pages.
    """
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
    """Return what is set largest on the first page with text, or else its first words."""
    title = next((part for part in parts if is_title(part, parts)), parts[0])
    return title.text[:_TITLE_LENGTH]


def _published(title: str, text: str, created: str | None) -> str | None:
    """Return the date that title or head of the text write out, unless the file is older than it."""
    day = written_date(title) or written_date(text[:_HEAD])
    return day if day and (created is None or day <= created) else None


def _metadata(pdf: PdfText, starts: list[int]) -> dict[str, object]:
    metadata = {"pdf_pages": len(pdf.pages), "page_starts": starts, "pdf_created": pdf.created}
    if pdf.scanned:
        metadata["scanned_pages"] = list(pdf.scanned)
    return {name: value for name, value in metadata.items() if value is not None}
