"""Puts the lines of a PDF page into reading order by its columns, and finds running headers and footers."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import accumulate, groupby, pairwise
from statistics import median
from typing import NamedTuple

from rag_assay.assets.cleaning.pdf.glyphs import GlyphRun, PageText

_APART = 0.8  # em between two pieces of a row from which they may stand in two columns
_WORDS_APART = 0.15  # em from which they are two words
_FEW_ROWS = 4  # rows that a column has at least; fewer are a table or a list of names
_LAST_ROWS = 2  # rows of a column at least that ends beside one of twice `_FEW_ROWS`
_TABLE_ROWS = 3  # rows of a table across columns at least
_NOTES = 5  # numbers at least that go on from column to column
_NUMBER = re.compile(r"[\[(]?(\d{1,3})(?=[\]).:\s]|$)")
_FILLED = 0.6  # share of a column's width that its rows fill at least: those of prose do, cells do not
_WORDS = 3  # in a row of a column at least
_CUT = 0.1  # share of rows that end within a word, from which two words are enough: the column is narrow
_NARROWEST = 0.2  # of the page's text: a column is wider, so a gutter lies farther from its edges
_STEP = 2.0  # points between two places where a gutter is looked for
_TRIED = 5  # places
_DEEPEST = 3  # cuts into cuts: eight columns
_MOST_PIECES = 5000  # of a page with columns

Row = list[GlyphRun]


class TextLine(NamedTuple):
    """A line of a column: edges, baseline and size as in `GlyphRun`, weight of most letters, page from 0, and
    number and edges of its column or band.
    """

    text: str
    x0: float
    x1: float
    y: float
    size: float
    weight: int
    page: int
    block: int
    left: float
    right: float


def lines_of(pages: list[PageText], left_out: set[int]) -> list[TextLine]:
    """Return the lines in reading order, turned ones last of a page; ``left_out``: `id` of pieces."""
    found: list[TextLine] = []
    block = 0
    for number, page in enumerate(pages):
        pieces = [piece for piece in page.pieces if id(piece) not in left_out]
        for turned in sorted({piece.turned for piece in pieces}):
            for part in _blocks([piece for piece in pieces if piece.turned == turned]):
                found += _lines(part, number, block)
                block += 1
    return found


def rows_of(pieces: list[GlyphRun]) -> list[Row]:
    """Group pieces that stand on one line, raised and lowered ones too; top to bottom, left to right."""
    rows: list[Row] = []
    largest: GlyphRun | None = None
    for piece in sorted(pieces, key=lambda one: (-one.y, one.x0)):
        if largest is not None and _is_beside(piece, largest):
            rows[-1].append(piece)
            largest = max(largest, piece, key=lambda one: one.size)
        else:
            rows.append([piece])
            largest = piece
    for row in rows:
        row.sort(key=lambda one: one.x0)
    return rows


def _is_beside(piece: GlyphRun, other: GlyphRun) -> bool:
    small, big = sorted((piece, other), key=lambda one: one.size)
    if big.size > 2.5 * small.size:  # a drop cap stands beside several lines
        return False
    shared = min(small.y + 0.7 * small.size, big.y + 0.7 * big.size) - max(small.y, big.y)
    return shared >= 0.5 * 0.7 * small.size


def text_of(row: Row) -> str:
    """Return the text of a row, in the reading direction of most of its letters."""
    text, last = "", None
    for piece in _leftward(row) if any(piece.leftward for piece in row) else row:
        gap = 0.0 if last is None else max(piece.x0 - last.x1, last.x0 - piece.x1)
        apart = last is not None and gap > _WORDS_APART * min(piece.size, last.size)
        text += f" {piece.text}" if apart else piece.text
        last = piece
    return text


def _leftward(row: Row) -> Row:
    """Return a row in reading order. Runs of the other direction (numbers in Arabic) keep their own."""
    letters = sum(len(piece.text) * (1 if piece.leftward else -1) for piece in row)
    runs = [list(run) for _, run in groupby(row, key=lambda piece: piece.leftward)]
    ordered = [run[::-1] if run[0].leftward else run for run in runs]
    return [piece for run in (ordered[::-1] if letters > 0 else ordered) for piece in run]


def _lines(block: list[GlyphRun], page: int, number: int) -> Iterator[TextLine]:
    left, right = min(piece.x0 for piece in block), max(piece.x1 for piece in block)
    for row in rows_of(block):
        letters: Counter[tuple[float, int]] = Counter()
        for piece in row:
            letters[(piece.size, piece.weight)] += len(piece.text)
        (size, weight), _ = letters.most_common(1)[0]
        y = next(piece.y for piece in row if (piece.size, piece.weight) == (size, weight))
        x1 = max(piece.x1 for piece in row)
        yield TextLine(text_of(row), row[0].x0, x1, y, size, weight, page, number, left, right)


# ------------------------------------------------------------------------------------------- columns


class _Segment(NamedTuple):
    """A stretch of a row without a gap that could be a gutter."""

    x0: float
    x1: float
    text: str


_Halves = tuple[list[_Segment], list[_Segment]]  # of a row: left and right of a gutter


def _blocks(pieces: list[GlyphRun], depth: int = 0) -> list[list[GlyphRun]]:
    if depth == _DEEPEST or len(pieces) > _MOST_PIECES or len(pieces) < 2 * _FEW_ROWS:
        return [pieces] if pieces else []
    rows = rows_of(pieces)
    segments = [_segments(row) for row in rows]
    gutter = _gutter(segments)
    if gutter is None:
        return [pieces]
    blocks: list[list[GlyphRun]] = []
    across: list[GlyphRun] = []
    for start, end, is_columns in _bands(segments, gutter):
        band = [piece for row in rows[start:end] for piece in row]
        if not is_columns:
            across += band
            continue
        blocks += _blocks(across, depth + 1)  # notes may have other columns than the text
        across = []
        blocks += _blocks([piece for piece in band if piece.x0 < gutter], depth + 1)
        blocks += _blocks([piece for piece in band if piece.x0 >= gutter], depth + 1)
    return blocks + _blocks(across, depth + 1)


def _segments(row: Row) -> list[_Segment]:
    found: list[_Segment] = []
    size = 0.0
    for piece in row:
        if found and piece.x0 - found[-1].x1 < _APART * max(size, piece.size):
            last = found.pop()
            found.append(_Segment(last.x0, max(last.x1, piece.x1), f"{last.text} {piece.text}"))
        else:
            found.append(_Segment(piece.x0, piece.x1, piece.text))
        size = piece.size
    return found


def _gutter(rows: list[list[_Segment]]) -> float | None:
    left = min(segment.x0 for row in rows for segment in row)
    right = max(segment.x1 for row in rows for segment in row)
    margin = _NARROWEST * (right - left)
    count = min(int((right - left - 2 * margin) / _STEP), 1000)
    places = [left + margin + _STEP * number for number in range(count)]
    crossed = _crossings(rows, left + margin, count)
    best, most = None, 0
    for place in _promising(places, crossed, len(rows)):
        covered = sum(end - start for start, end, is_columns in _bands(rows, place) if is_columns)
        if covered > most:
            best, most = place, covered
    return best


def _crossings(rows: list[list[_Segment]], first: float, count: int) -> list[int]:
    steps = [0] * (count + 1)
    for row in rows:
        for segment in row:
            begin = max(0, min(count, int((segment.x0 - first) / _STEP) + 1))
            end = max(begin, min(count, int((segment.x1 - first) / _STEP) + 1))
            steps[begin] += 1
            steps[end] -= 1
    return list(accumulate(steps[:count]))


def _promising(places: list[float], crossed: list[int], rows: int) -> list[float]:
    stretches: list[tuple[int, int, float]] = []
    begin = 0
    for number in range(1, len(places) + 1):
        if number == len(places) or crossed[number] != crossed[begin]:
            if crossed[begin] < 0.7 * rows:
                stretches.append((crossed[begin], begin - number, places[(begin + number - 1) // 2]))
            begin = number
    return [place for _, _, place in sorted(stretches)[:_TRIED]]


def _bands(rows: list[list[_Segment]], gutter: float) -> Iterator[tuple[int, int, bool]]:
    """Yield the stretches of rows that are columns on both sides of a gutter, or not."""
    crossing = [any(segment.x0 < gutter < segment.x1 for segment in row) for row in rows]
    for start, end, is_crossing in _runs(crossing):
        if is_crossing:
            yield start, end, False
            continue
        band = [
            ([one for one in row if one.x1 <= gutter], [one for one in row if one.x0 >= gutter])
            for row in rows[start:end]
        ]
        if _are_notes(band):
            yield start, end, True
            continue
        for first, last, is_table in _runs(_tables(band)):
            yield start + first, start + last, not is_table and _are_columns(band[first:last])


def _runs(flags: list[bool]) -> Iterator[tuple[int, int, bool]]:
    start = 0
    for flag, run in groupby(flags):
        end = start + sum(1 for _ in run)
        yield start, end, flag
        start = end


def _sides(band: list[_Halves]) -> tuple[list[list[_Segment]], list[list[_Segment]]]:
    return [left for left, _ in band if left], [right for _, right in band if right]


def _width(rows: list[list[_Segment]]) -> float:
    return max(row[-1].x1 for row in rows) - min(row[0].x0 for row in rows) if rows else 0.0


def _filled(row: list[_Segment]) -> float:
    return sum(segment.x1 - segment.x0 for segment in row)


def _are_notes(band: list[_Halves]) -> bool:
    """Return whether the numbers at the beginning of the left rows go on in the right ones, which rows of a
    table never do: notes may be too short for prose.
    """
    counts, following = [0, 0], None
    for side, rows in enumerate(_sides(band)):
        for row in rows:
            text = " ".join(segment.text for segment in row)
            number = _NUMBER.match(text)
            if number and following in {None, int(number[1])} and any(map(str.isalpha, text)):
                counts[side] += 1
                following = int(number[1]) + 1
    return min(counts) > 1 and sum(counts) >= _NOTES


def _tables(band: list[_Halves]) -> list[bool]:
    """Return which rows are those of a table across both columns: cells that fill neither."""
    widths = [_width(side) for side in _sides(band)]
    flags = [
        len(left) + len(right) > 2
        and all(
            0 < _filled(side) < _FILLED * width for side, width in zip((left, right), widths, strict=True)
        )
        for left, right in band
    ]
    return [
        is_table and end - start >= _TABLE_ROWS
        for start, end, is_table in _runs(flags)
        for _ in range(start, end)
    ]


def _are_columns(band: list[_Halves]) -> bool:
    sides = _sides(band)
    few, many = sorted(map(len, sides))
    if few < _FEW_ROWS:
        shorter = min((0, 1), key=lambda side: len(sides[side]))
        places = [place for place, halves in enumerate(band) if halves[shorter]]
        if few < _LAST_ROWS or many < 2 * _FEW_ROWS or places[-1] - places[0] >= 2 * few:
            return False
    whole = _width([[*left, *right] for left, right in band])
    return all(_is_column(rows, whole) for rows in sides)


def _is_column(rows: list[list[_Segment]], whole: float) -> bool:
    width = _width(rows)
    if width < _NARROWEST * whole:
        return False
    cut = sum(row[-1].text.endswith("-") for row in rows) >= max(1, _CUT * len(rows))
    words = median(sum(len(segment.text.split()) for segment in row) for row in rows)
    return median(map(_filled, rows)) >= _FILLED * width and words >= _WORDS - cut


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
    """Return the `id` of each piece of a running header or footer: a line that recurs at one place of most
    pages or of three neighbours, or begins or ends with the page's number, as most at its place do.
    """
    edges = list(_edges(pages))
    filled = len({edge.page for edge in edges})
    letters: Counter[float] = Counter()
    for page in pages:
        for piece in page.pieces:
            letters[piece.size] += len(piece.text)
    usual = letters.most_common(1)[0][0] if letters else 0.0
    repeated: dict[tuple[bool, str], list[_Edge]] = defaultdict(list)
    for edge in edges:
        repeated[(edge.is_top, edge.text)].append(edge)
    found = [
        *(line for group in repeated.values() for line in _repeated(group, filled)),
        *(line for side in (True, False) for line in _numbered(edges, side, filled, usual)),
    ]
    return {id(piece) for edge in found for piece in edge.row}


def _repeated(group: list[_Edge], filled: int) -> Iterator[_Edge]:
    for place in _by_place(group):
        pages = {edge.page for edge in place}
        stretch = max(pages) - min(pages) + 1
        if len(pages) >= max(2, min(_FEW_PAGES, filled)) and len(pages) >= _SHARE * stretch:
            yield from place


def _numbered(edges: list[_Edge], is_top: bool, filled: int, usual: float) -> Iterator[_Edge]:
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


def _by_place(group: list[_Edge]) -> Iterator[list[_Edge]]:
    together: list[_Edge] = []
    for edge in sorted(group, key=lambda one: one.y):
        if together and edge.y - together[-1].y > _SAME_PLACE:
            yield together
            together = []
        together.append(edge)
    yield together
