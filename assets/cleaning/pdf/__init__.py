"""PDF files: their text in reading order, with headings as sections, by PDFium."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from rag_assay.assets.cleaning.draft import DocumentDraft, UnusablePage
from rag_assay.assets.cleaning.outline import OutlineBuilder
from rag_assay.assets.cleaning.pdf.columns import TextLine, furniture, lines_of
from rag_assay.assets.cleaning.pdf.glyphs import PdfText, read_pdf
from rag_assay.assets.cleaning.pdf.ocr import even_sizes, scan_reader, tesseract
from rag_assay.assets.cleaning.unicode import repair_encoding, tidy
from rag_assay.assets.cleaning.written_dates import written_date
from rag_assay.warehouse.pdf import why_not

BOLDER = 120  # weight more than the text's own from which letters are bold
OTHER_SIZE = 0.08  # share of the size by which another size differs
_WIDER = 1.35  # times the usual distance between two lines
_INDENT = 0.8  # em
_LONGEST = 20_000  # characters: what is longer was never a paragraph
_LONGEST_WORD = 80
_SHORT = 0.75  # share of the column that a line which is no paragraph's last one fills
_FULL = 0.88  # share that a line fills which goes on in the next column
_ENDS = re.compile(r"[.!?:;…][\"'“”»«’)\]]*$")
_ITEM = re.compile(r"(?:[•●▪■◦‣·∙*–—-]|\(?(?:\d{1,3}|[a-z]|[ivx]{1,5})[.)])\s+\S")
_CUT = re.compile(r"(\w+)-$")
_LETTERS = re.compile(r"[^\W\d_]+-?")
_PARTS = re.compile(r"\w+-\w+|\w+")
_AND = frozenset({"and", "or", "und", "oder", "bzw", "et", "ou", "sowie", "to", "bis"})


class Type(NamedTuple):
    """What the text itself is set in: size and weight of most letters, and lines apart in sizes."""

    size: float
    weight: int
    leading: float


@dataclass
class Paragraph:
    """Lines that belong together.

    pages: (page from 0, offset in the text) where each of its pages begins
    apart: it stands apart from what is above it
    is_bold: bolder than the text of the file; body: the size of that text
    """

    text: str
    size: float
    is_bold: bool
    body: float
    apart: bool
    lines: int = 1
    pages: list[tuple[int, int]] = field(default_factory=list)


def paragraphs(lines: list[TextLine]) -> list[Paragraph]:
    shown = [(line, text) for line in lines if (text := " ".join(tidy(line.text).split()))]
    if not shown:
        return []
    usual = _usual([line for line, _ in shown])
    known = {part for _, text in shown for part in _PARTS.findall(text.casefold())}
    found: list[Paragraph] = []
    before: TextLine | None = None
    for line, text in shown:
        if before is not None and _goes_on(before, line, found[-1].text, text, usual):
            part = found[-1]
            head, gap = join_lines(part.text, text, known)
            if part.pages[-1][0] != line.page:
                part.pages.append((line.page, len(head) + len(gap)))
            part.text = f"{head}{gap}{text}"
            part.lines += 1
        else:
            apart = before is None or before.block != line.block or _is_apart(before, line, usual)
            bold = line.weight >= usual.weight + BOLDER
            found.append(Paragraph(text, line.size, bold, usual.size, apart, pages=[(line.page, 0)]))
        before = line
    return [_mended(part) for part in found]


def _usual(lines: list[TextLine]) -> Type:
    letters: Counter[float] = Counter()
    weights: Counter[tuple[float, int]] = Counter()
    for line in lines:
        letters[line.size] += len(line.text)
        weights[(line.size, line.weight)] += len(line.text)
    size = letters.most_common(1)[0][0]
    weight = max((w for s, w in weights if s == size), key=lambda w: weights[(size, w)])
    steps = [
        (above.y - below.y) / size
        for above, below in pairwise(lines)
        if above.block == below.block and above.size == below.size == size
    ]
    near = [step for step in steps if 0.8 < step < 2.5]
    return Type(size, weight, median(near) if near else 1.2)


def is_other_size(one: float, other: float) -> bool:
    return abs(one - other) > OTHER_SIZE * max(one, other)


def _goes_on(above: TextLine, below: TextLine, so_far: str, text: str, usual: Type) -> bool:
    bold = usual.weight + BOLDER
    if (
        len(so_far) > _LONGEST
        or is_other_size(above.size, below.size)
        or (above.weight >= bold) != (below.weight >= bold)
    ):
        return False
    if above.block != below.block:
        if _ENDS.search(so_far[-_LONGEST_WORD:]) or _ITEM.match(text):
            return False
        if text[0].islower() or so_far.endswith("-"):
            return True
        goes_up = below.page != above.page or below.y > above.y
        return goes_up and above.x1 - above.left > _FULL * (above.right - above.left)
    if _is_apart(above, below, usual) or _ITEM.match(text):
        return False
    ended = bool(_ENDS.search(so_far[-_LONGEST_WORD:]))
    filled = (above.x1 - above.left) / max(above.right - above.left, 1.0)
    is_indented = below.x0 - below.left > _INDENT * below.size >= above.x0 - above.left
    return not (ended and (filled < _SHORT or is_indented))


def _is_apart(above: TextLine, below: TextLine, usual: Type) -> bool:
    step = above.y - below.y
    return step > _WIDER * max(usual.leading, 1.0) * max(above.size, below.size) or step < 0


def join_lines(above: str, below: str, known: set[str]) -> tuple[str, str]:
    """Return the upper text as written before the line below, and the separator between them.

    >>> join_lines("the gas stor-", "age level", set()), join_lines("Strom-", "und Gasnetze", set())
    (('the gas stor', ''), ('Strom-', ' '))
    >>> join_lines("Baden-", "Württemberg", set()), join_lines("a well-", "known word", {"well-known"})
    (('Baden-', ''), ('a well-', ''))
    """
    cut = _CUT.search(above[-_LONGEST_WORD:]) if above.endswith("-") else None
    if not cut:
        return above, " "
    first = _LETTERS.match(below)
    if not first:
        return above, "" if below[0].isdigit() else " "
    word = first[0].rstrip("-").casefold()
    if word in _AND:
        return above, " "
    whole, hyphened = f"{cut[1]}{word}".casefold(), f"{cut[1]}-{word}".casefold()
    if not below[0].islower() or cut[1][-1].isdigit() or (hyphened in known and whole not in known):
        return above, ""
    return above[:-1], ""


def _mended(part: Paragraph) -> Paragraph:
    text = tidy(repair_encoding(part.text))
    if text != part.text:
        share = len(text) / len(part.text)
        part.pages = [(page, min(round(offset * share), len(text))) for page, offset in part.pages]
        part.text = text
    return part


_LARGER = 1.1  # times the size of the text
_LONGEST_HEADING = 200  # characters
_MOST_LINES = 4
_MOST_HEADING = 0.3  # share of a file's characters that headings make up at most
_LEVELS = 6  # deeper ones count as the sixth
_NUMBERED = re.compile(r"(\d{1,3}(?:\.\d{1,3})*)\.?\s+[^\W\d_]|[A-Z](\.\d{1,3})+\.?\s+[^\W\d_]")
_NAMED = re.compile(
    r"(?:article|artikel|chapter|kapitel|section|abschnitt|annex|anhang|appendix|part|teil)\s+"
    r"(?:\d{1,4}[a-z]?|[IVXLC]{1,7}|[A-Z])\b[^.;,]{0,80}",
    re.I,
)
_SENTENCE = re.compile(r"[.;,]$")
_LEADER = re.compile(r"(?:\.\s?){4,}|…")  # a table of contents
_LEADERS = re.compile(  # between an entry of a table of contents and its page
    r"(?<=[^\s.·․‥…])\s*(?:[.·․‥…]\s?){4,}\s*(?=(?:[A-Z]{0,2}-?\d{1,4}|[ivxlc]{1,7})(?:\s|$))"
)
_Look = tuple[float, bool]


def headings(parts: list[Paragraph]) -> dict[int, int]:
    """Return the places of the headings among the paragraphs, with their levels from 1: by size, then bold
    text of the body size; each further number is one level more. Where bold is the rule, it marks no heading.
    """
    found = {place: part for place, part in enumerate(parts) if is_heading(part, _after(parts, place))}
    if sum(len(part.text) for part in found.values()) > _MOST_HEADING * sum(len(part.text) for part in parts):
        found = {place: part for place, part in found.items() if _is_larger(part)}
    if len(found) == len(parts):
        return {}
    ranks = _ranks(found)
    return {place: min(_level(part, ranks, found), _LEVELS) for place, part in found.items()}


def is_heading(part: Paragraph, following: Paragraph | None) -> bool:
    text = part.text
    if not 2 <= len(text) <= _LONGEST_HEADING or part.lines > _MOST_LINES or not any(map(str.isalpha, text)):
        return False
    if _LEADER.search(text):
        return False
    if _is_larger(part):
        return True
    if _SENTENCE.search(text) or following is None or part.size < 0.95 * part.body:
        return False
    goes_on = following.text[0].islower() and not following.apart
    if part.is_bold:
        return not goes_on and (part.apart or _depth(text) is not None or bool(_NAMED.fullmatch(text)))
    is_numbered = "." in (_depth_text(text) or "") or _NAMED.fullmatch(text)
    return bool(is_numbered) and part.apart and part.lines == 1 and following.apart and len(text) < 100


def is_title(part: Paragraph, parts: list[Paragraph]) -> bool:
    first = parts[0].pages[0][0]
    largest = max(one.size for one in parts if one.pages[0][0] == first)
    return part.pages[0][0] == first and part.size == largest and _is_larger(part) and len(part.text) > 2


def _after(parts: list[Paragraph], place: int) -> Paragraph | None:
    return parts[place + 1] if place + 1 < len(parts) else None


def _is_larger(part: Paragraph) -> bool:
    return part.size >= _LARGER * part.body


def _look(part: Paragraph) -> _Look:
    return (part.size if _is_larger(part) else part.body, part.is_bold and not _is_larger(part))


def _ranks(found: dict[int, Paragraph]) -> dict[_Look, int]:
    ranks: dict[_Look, int] = {}
    rank, last = 0, None
    for look in sorted({_look(part) for part in found.values()}, reverse=True):
        if last is None or is_other_size(last[0], look[0]) or last[1] != look[1]:
            rank, last = rank + 1, look
        ranks[look] = rank
    return ranks


def _level(part: Paragraph, ranks: dict[_Look, int], found: dict[int, Paragraph]) -> int:
    rank = ranks[_look(part)]
    depth = _depth(part.text)
    if depth is None:
        return rank
    same = [other for one in found.values() if ranks[_look(one)] == rank and (other := _depth(one.text))]
    return rank + depth - min(same)


def _depth_text(text: str) -> str | None:
    found = _NUMBERED.match(text)
    return (found[1] or found[0].split()[0]) if found else None


def _depth(text: str) -> int | None:
    """Return how many numbers a heading begins with, or None.

    >>> _depth("2.1 Gas storage"), _depth("3. Prices"), _depth("Prices")
    (2, 1, None)
    """
    number = _depth_text(text)
    return number.strip(".").count(".") + 1 if number else None


_TITLE_LENGTH = 300
_HEAD = 300  # characters in which the date of a document stands, if it is its own


def clean_pdf(body: bytes, ocr: str | None = None) -> DocumentDraft:
    """Extract text, headings and pages of a PDF in reading order, without running headers and footers.

    Without headings (by size and weight), each page is a section. `metadata`: `pdf_pages` (how many),
    `page_starts` (offsets), `pdf_created`, `scanned_pages` (page numbers), `ocr_pages` (those that Tesseract
    read, by the languages ``ocr``), `ocr_unread` (page -> why it could not) and `ocr` (its version).
    """
    reason = why_not(body, scans=ocr is not None)
    if reason:
        raise UnusablePage(f"PDF: {reason}")
    with scan_reader(ocr) if ocr else nullcontext() as begin_scan:
        pdf = read_pdf(body, begin_scan)
    even_sizes([piece for page in pdf.recognized for piece in pdf.pages[page - 1].pieces])
    parts = paragraphs(lines_of(pdf.pages, furniture(pdf.pages)))
    if not parts:
        unread = next((f"images only; {page.unread}" for page in pdf.pages if page.unread), None)
        raise UnusablePage(f"PDF: no text: {unread or 'nothing but running headers and footers'}")
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
        metadata=_metadata(pdf, starts)
        | {"date_source": "text" if published else "none"}
        | ({"ocr": tesseract(ocr)} if ocr and pdf.recognized else {}),
        repaired=True,
    )


def _put_together(parts: list[Paragraph], pages: int) -> tuple[OutlineBuilder, list[int]]:
    levels = headings(parts)
    outline = OutlineBuilder()
    found: dict[int, int] = {}
    for place, part in enumerate(parts):
        level = levels.get(place)
        text = _LEADERS.sub(" ", part.text)
        start = outline.add(text) if level is None else outline.begin(text, level)
        for page, offset in part.pages:
            found.setdefault(page, start + len(_LEADERS.sub(" ", part.text[:offset])))
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
        {"heading": f"page {number}", "level": 1, "start": start, "end": start + len(page)}
        for number, (start, end) in enumerate(zip(starts, ends, strict=True), 1)
        if (page := text[start:end].rstrip())
    ]


def _title(parts: list[Paragraph]) -> str:
    title = next((part for part in parts if is_title(part, parts)), parts[0])
    return title.text[:_TITLE_LENGTH]


def _metadata(pdf: PdfText, starts: list[int]) -> dict[str, object]:
    metadata = {"pdf_pages": len(pdf.pages), "page_starts": starts, "pdf_created": pdf.created}
    metadata["scanned_pages"] = list(pdf.scanned) or None
    metadata["ocr_pages"] = list(pdf.recognized) or None
    unread = {str(number): page.unread for number, page in enumerate(pdf.pages, 1) if page.unread}
    metadata["ocr_unread"] = unread or None
    return {name: value for name, value in metadata.items() if value is not None}
