"""Finds running headers and footers: lines repeated at the edge of many pages."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from rag_assay.assets.cleaning.pdf.columns import Row, rows_of, text_of
from rag_assay.assets.cleaning.pdf.glyphs import PageText

_EDGE_ROWS = 3  # from the upper and from the lower edge
_CLOSE = 1.6  # em between two lines of a paragraph at most
_EDGE = 0.15  # of the page's height
_SAME_PLACE = 3.0  # points that the line may stand higher or lower on another page
_FEW_PAGES = 3  # on which it stands at least; a file of two pages: both
_SHARE = 0.4  # of the pages from its first to its last: left and right pages may have headers of their own
_LARGER = 1.05  # times the usual size: a heading
_FIRST = re.compile(r"(\d{1,5})(?=$|[\s|./-])")
_LAST = re.compile(r"(?:^|[\s|/.-])(\d{1,5})$")
_OF = re.compile(r"\b(\d{1,5})\s?(?:/|of|von|de|sur)\s?\d{1,5}$", re.I)
_ROMAN = re.compile(r"[ivxlc]{1,7}")
_DIGITS = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}


class _Edge(NamedTuple):
    """A row at the upper or lower edge of a page."""

    page: int
    row: Row
    text: str
    y: float  # from the upper or lower edge of the page
    is_top: bool


def furniture(pages: list[PageText]) -> set[int]:
    """Return the `id` of each piece of a running header or footer.

    A line is one if it comes again at the same place of most pages, or of all pages of a stretch of at least
    three (the title of a chapter); or if it begins or ends with the number of the page, and most lines at its
    place do. "Article 7" at the head of a page is none: its number does not go up with every page.
    """
    edges = list(_edges(pages))
    filled = len({edge.page for edge in edges})
    usual = _usual_size(pages)
    repeated: dict[tuple[bool, str], list[_Edge]] = defaultdict(list)
    for edge in edges:
        repeated[(edge.is_top, edge.text)].append(edge)
    found = [
        *(line for group in repeated.values() for line in _repeated(group, filled)),
        *(line for side in (True, False) for line in _numbered(edges, side, filled, usual)),
    ]
    return {id(piece) for edge in found for piece in edge.row}


def _repeated(group: list[_Edge], filled: int) -> Iterator[_Edge]:
    """Yield lines of the same text that stand at one place of enough pages."""
    for place in _by_place(group):
        pages = {edge.page for edge in place}
        stretch = max(pages) - min(pages) + 1
        if len(pages) >= max(2, min(_FEW_PAGES, filled)) and len(pages) >= _SHARE * stretch:
            yield from place


def _numbered(edges: list[_Edge], is_top: bool, filled: int, usual: float) -> Iterator[_Edge]:
    """Yield the lines at one place that begin or end with the number of their page; headings are larger."""
    small = [edge for edge in edges if edge.is_top == is_top and edge.row[0].size <= _LARGER * usual]
    for place in _by_place(small):
        offsets: dict[tuple[bool, int], list[_Edge]] = defaultdict(list)
        for edge in place:
            for is_roman, number in _page_numbers(edge.text):
                offsets[(is_roman, number - edge.page)].append(edge)
        for lines in offsets.values():
            if len({edge.page for edge in lines}) >= max(2, min(_FEW_PAGES, filled)):
                yield from lines


def _page_numbers(text: str) -> set[tuple[bool, int]]:
    """Return what may be a page's number in a line: (roman, number).

    >>> sorted(_page_numbers("Chapter 2: Prices 17")), sorted(_page_numbers("- 3 -")), _page_numbers("xiv")
    ([(False, 17)], [(False, 3)], {(True, 14)})
    >>> sorted(_page_numbers("Page 3 of 12")), _page_numbers("Article 7 applies")
    ([(False, 3), (False, 12)], set())
    """
    bare = text.strip(" -–—|[]()·•")
    if roman := _ROMAN.fullmatch(bare.lower()):
        return {(True, _roman(roman[0]))}
    found = [_FIRST.match(bare), _LAST.search(bare), _OF.search(bare)]
    return {(False, int(match[1])) for match in found if match}


def _roman(text: str) -> int:
    values = [_DIGITS[letter] for letter in text]
    return sum(-one if one < following else one for one, following in pairwise([*values, 0]))


def _edges(pages: list[PageText]) -> Iterator[_Edge]:
    for number, page in enumerate(pages):
        rows = rows_of([piece for piece in page.pieces if piece.turned == 0])
        deep = _EDGE * (page.top - page.bottom)
        for row in _outside(rows):
            if page.top - row[0].y < deep:
                yield _Edge(number, row, " ".join(text_of(row).split()), page.top - row[0].y, True)
        for row in _outside(rows[: _EDGE_ROWS - 1 : -1]):
            if row[0].y - page.bottom < deep:
                yield _Edge(number, row, " ".join(text_of(row).split()), row[0].y - page.bottom, False)


def _outside(rows: list[Row]) -> list[Row]:
    """Return the first rows; not those of a longer paragraph, which is text though it came on every page."""
    near = rows[: _EDGE_ROWS + 1]
    ends = next(
        (at for at in range(len(near) - 1, 0, -1) if not _is_close(near[at - 1], near[at])),
        0 if len(near) > _EDGE_ROWS else len(near),
    )
    return near[: min(ends, _EDGE_ROWS)]


def _is_close(row: Row, other: Row) -> bool:
    size = row[0].size
    return abs(row[0].y - other[0].y) < _CLOSE * size and abs(size - other[0].size) < _LARGER * size - size


def _usual_size(pages: list[PageText]) -> float:
    letters: Counter[float] = Counter()
    for page in pages:
        for piece in page.pieces:
            letters[piece.size] += len(piece.text)
    return letters.most_common(1)[0][0] if letters else 0.0


def _by_place(group: list[_Edge]) -> Iterator[list[_Edge]]:
    """Split lines of the same text by how far from the edge they stand."""
    together: list[_Edge] = []
    for edge in sorted(group, key=lambda one: one.y):
        if together and edge.y - together[-1].y > _SAME_PLACE:
            yield together
            together = []
        together.append(edge)
    yield together
