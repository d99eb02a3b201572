"""Text pieces of a PDF with their places, font sizes and weights."""

from __future__ import annotations

import ctypes
import math
import re
import unicodedata
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rag_assay.assets.cleaning.draft import UnusablePage
from rag_assay.assets.cleaning.titles import is_title, names_in
from rag_assay.assets.cleaning.unicode import tidy

MAX_CHARACTERS = 10_000_000  # of all pages together: two minutes of reading
_BIGGEST = 144.0  # points: what says that it is larger is drawn by other means
_BOLD = re.compile(r"bold|black|heavy|(?:^|\+)cmbx", re.I)
_BOLD_WEIGHT = 700
_HYPHENS = {0x2, 0xFFFE, 0x00AD, 0x2010}  # PDFium gives the first two for a hyphen at the end of a line
_LEFTWARD = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")  # Hebrew, Arabic, …
_FORMS = re.compile("[\ufb1d-\ufdff\ufe70-\ufefc]+")  # letters as drawn at a position in a word
_BREAK = 1.0  # em between two words from which they may stand in two columns
_STAMP = 100  # letters that may stand on a page which is a picture
_CREATED = re.compile(r"D:(\d{4})(\d{2})(\d{2})")


@dataclass(slots=True)
class GlyphRun:
    """Text on one baseline without a wide gap, in one size and weight.

    x0, x1, y: edges and baseline in points, y upwards, as if upright
    weight: 400 regular, 700 bold; turned: quarter turns against the page's first text
    """

    text: str
    x0: float
    x1: float
    y: float
    size: float
    weight: int
    turned: int = 0
    leftward: bool = False


class PageText(NamedTuple):
    """A page's pieces in the order of the file, and its edges; ``unread``: why OCR could not read it."""

    pieces: list[GlyphRun]
    bottom: float
    top: float
    is_scan: bool = False
    unread: str | None = None


class PdfText(NamedTuple):
    """All pages of a file, its title and creation date (ISO).

    scanned: numbers, from 1, of pages that are images; recognized: of those that were read by OCR
    """

    pages: list[PageText]
    title: str | None
    created: str | None
    authors: tuple[str, ...] = ()
    scanned: tuple[int, ...] = ()
    recognized: tuple[int, ...] = ()


def read_pdf(body: bytes, begin_scan: Callable[[Any, int, int], Future[PageText]] | None = None) -> PdfText:
    """Read a PDF that `warehouse.pdf.why_not` accepts. A page that PDFium cannot load has no text.

    begin_scan: begins to read a page that is a scan; its other arguments are its number, and that of the last
    """
    import pypdfium2 as pdfium

    with closing(pdfium.PdfDocument(body)) as document:
        pages, left, begun = [], MAX_CHARACTERS, dict[int, Future[PageText]]()
        for number in range(len(document)):
            try:
                page, count = _page(document, number, left)
                if page.is_scan and begin_scan is not None:
                    begun[number] = begin_scan(document[number], number + 1, len(document))
            except pdfium.PdfiumError:
                page, count = PageText([], 0.0, 0.0), 0
            pages.append(page)
            left -= count
        facts = document.get_metadata_dict()
    recognized = []
    for number, reading in begun.items():
        read = reading.result()
        if read.pieces:
            pages[number] = read
            recognized.append(number + 1)
        else:
            pages[number] = pages[number]._replace(unread=read.unread)
    title = tidy(str(facts.get("Title") or ""))
    created = _CREATED.match(str(facts.get("CreationDate") or ""))
    return PdfText(
        pages,
        title if is_title(title) else None,
        "-".join(created.groups()) if created else None,
        names_in(tidy(str(facts.get("Author") or ""))),
        tuple(number for number, page in enumerate(pages, 1) if page.is_scan),
        tuple(recognized),
    )


def _page(document: Any, number: int, left: int) -> tuple[PageText, int]:
    with closing(document[number]) as page, closing(page.get_textpage()) as text:
        count = text.count_chars()
        if count > left:
            raise UnusablePage(f"PDF: more than {MAX_CHARACTERS} characters")
        found = _Reader(text, page.get_bbox()).read(count)
        return found._replace(is_scan=_is_scan(page, found)), count


def _is_scan(page: Any, found: PageText) -> bool:
    """Return whether a page is a picture of one: hardly a word, as of a stamp, and images over half of it."""
    from pypdfium2 import raw

    if sum(len(piece.text) for piece in found.pieces) > _STAMP:
        return False
    images = list(page.get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE], max_depth=3))
    if not found.pieces:
        return bool(images)
    boxes = [image.get_bounds() for image in images]
    covered = sum(abs((right - left) * (top - bottom)) for left, bottom, right, top in boxes)
    return covered > 0.5 * page.get_width() * page.get_height()


class _Style(NamedTuple):
    size: float
    weight: int
    turned: int


@dataclass
class _Reader:
    """Reads one page letter by letter; a piece grows until size, line or column change."""

    text: Any
    box: tuple[float, float, float, float]
    pieces: list[GlyphRun] = field(default_factory=list)
    _letters: list[tuple[float, str]] = field(default_factory=list)  # and where each begins
    _spaced: bool = False

    def read(self, count: int) -> PageText:
        from pypdfium2 import raw

        x, y, box = ctypes.c_double(), ctypes.c_double(), raw.FS_RECTF()
        text, styles = self.text, dict[int, _Style]()
        for place in range(count):
            code = raw.FPDFText_GetUnicode(text, place)
            if code <= 0x20 and code not in _HYPHENS:
                self._spaced = True
                if code == 0x20 and self.pieces and self.pieces[-1].leftward:
                    raw.FPDFText_GetCharOrigin(text, place, x, y)
                    at = _upright(x.value, y.value, self.pieces[-1].turned)[0]
                    self._letters.append((at, " "))
                continue
            drawn = raw.FPDFText_GetTextObject(text, place)
            if not drawn or not raw.FPDFText_GetCharOrigin(text, place, x, y):
                continue
            raw.FPDFText_GetLooseCharBox(text, place, box)
            key = ctypes.addressof(drawn.contents)
            if key not in styles:
                styles[key] = _style(text, place)
            if self._is_on_page(x.value, y.value):
                edges = (box.left, box.right, box.bottom, box.top)
                self._take(_letter(code), x.value, y.value, edges, styles[key])
        self._end()
        turns = [piece.turned for piece in self.pieces]
        upright = max(set(turns), key=turns.count) if turns else 0
        for piece in self.pieces:
            piece.turned = (piece.turned - upright) % 4
        bottom, top = sorted(
            (_upright(self.box[0], self.box[1], upright)[1], _upright(self.box[2], self.box[3], upright)[1])
        )
        return PageText(self.pieces, bottom, top)

    def _is_on_page(self, x: float, y: float) -> bool:
        left, bottom, right, top = self.box
        return left - 1 <= x <= right + 1 and bottom - 1 <= y <= top + 1

    def _take(
        self, letter: str, x: float, y: float, edges: tuple[float, float, float, float], style: _Style
    ) -> None:
        left, right, low, high = edges
        (a, _), (b, _) = _upright(left, low, style.turned), _upright(right, high, style.turned)
        start, line = _upright(x, y, style.turned)
        end = min(max(a, b), start + 3 * style.size)  # a box that is wider is a fault of the font
        last = self.pieces[-1] if self.pieces else None
        leftward = _LEFTWARD.match(letter) is not None
        goes_on = (
            last is not None
            and (last.size, last.weight, last.turned) == style
            and abs(line - last.y) < 0.2 * style.size
            and last.leftward == leftward
            and (
                # PDFium reverses only some words, so letters are ordered by their positions.
                max(start - last.x1, last.x0 - end) < _BREAK * style.size
                if leftward
                else -0.7 * style.size < start - last.x1 < _BREAK * style.size
            )
        )
        if last is not None and goes_on:
            if self._spaced and not leftward:  # PDFium takes the width of a space from the font
                self._letters.append((start, " "))
            last.x0, last.x1 = min(last.x0, start) if leftward else last.x0, max(last.x1, end)
        else:
            self._end()
            self.pieces.append(GlyphRun("", start, max(start, end), line, *style, leftward))
        self._letters.append((start, letter))
        self._spaced = False

    def _end(self) -> None:
        if self._letters:
            if self.pieces[-1].leftward:
                self._letters.sort(key=lambda one: (-one[0], one[1] != " "))
            whole = "".join(letter for _, letter in self._letters)
            units = whole.encode("utf-16-le", "surrogatepass")  # PDFium returns UTF-16 units
            self.pieces[-1].text = _FORMS.sub(_as_letters, units.decode("utf-16-le", "ignore"))
            self._letters.clear()


def _style(text: Any, place: int) -> _Style:
    """Return size, weight and direction of a letter; the matrix scales what the font's size says."""
    from pypdfium2 import raw

    matrix = raw.FS_MATRIX()
    raw.FPDFText_GetMatrix(text, place, matrix)
    size = raw.FPDFText_GetFontSize(text, place) * math.hypot(matrix.c, matrix.d)
    size = round(min(abs(size), _BIGGEST), 1) if math.isfinite(size) else _BIGGEST
    turned = round(math.atan2(matrix.b, matrix.a) / (math.pi / 2)) % 4 if matrix.a or matrix.b else 0
    name = ctypes.create_string_buffer(128)
    raw.FPDFText_GetFontInfo(text, place, name, len(name), ctypes.c_int())
    is_bold = _BOLD.search(name.value.decode("latin-1"))
    weight = raw.FPDFText_GetFontWeight(text, place)
    return _Style(max(size, 1.0), max(weight, _BOLD_WEIGHT) if is_bold else weight, turned)


def _as_letters(found: re.Match[str]) -> str:
    return unicodedata.normalize("NFKC", found[0])


def _upright(x: float, y: float, turned: int) -> tuple[float, float]:
    return ((x, y), (y, -x), (-x, -y), (-y, x))[turned]


def _letter(code: int) -> str:
    return "-" if code in _HYPHENS else chr(code) if code < 0x110000 else "\ufffd"
