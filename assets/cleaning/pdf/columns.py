"""Puts the lines of a PDF page into reading order; gutters part its columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from rag_assay.assets.cleaning.pdf.glyphs import GlyphRun, PageText

_APART = 0.8  # em between two pieces of a row from which they may stand in two columns
_WORDS_APART = 0.15  # em from which they are two words
_FEW_ROWS = 4  # rows that a column has at least; fewer are a table or a list of names
_FILLED = 0.6  # share of a column's width that its rows fill at least: those of prose do, cells do not
_WORDS = 3  # in a row of a column at least
_NARROWEST = 0.2  # of the page's text: a column is wider, so a gutter lies farther from its edges
_STEP = 2.0  # points between two places where a gutter is looked for
_TRIED = 5  # places
_DEEPEST = 3  # cuts into cuts: eight columns
_MOST_PIECES = 5000  # of a page: beyond it, nobody has set columns

Row = list[GlyphRun]


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line of a column.

    x0, x1, y, size: as in `GlyphRun`; weight: that of most letters
    page: from 0; block: number of the column or stretch of the page that it stands in
    left, right: edges of that block
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
    """Return the lines of all pages in reading order, without the pieces whose `id` is in ``left_out``.

    Text that stands across the page's own direction comes after the rest of its page.
    """
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
    """Return the text of a row, a space where there is one between two pieces."""
    text, last = "", None
    for piece in row:
        apart = last is not None and piece.x0 - last.x1 > _WORDS_APART * min(piece.size, last.size)
        text += f" {piece.text}" if apart else piece.text
        last = piece
    return text


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


@dataclass(frozen=True, slots=True)
class _Segment:
    """A stretch of a row without a gap that could be a gutter."""

    x0: float
    x1: float
    words: int


def _blocks(pieces: list[GlyphRun], depth: int = 0) -> list[list[GlyphRun]]:
    """Return columns, and what stands across them, in reading order."""
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
        blocks += [across] if across else []
        across = []
        blocks += _blocks([piece for piece in band if piece.x0 < gutter], depth + 1)
        blocks += _blocks([piece for piece in band if piece.x0 >= gutter], depth + 1)
    return [*blocks, across] if across else blocks


def _segments(row: Row) -> list[_Segment]:
    found: list[_Segment] = []
    size = 0.0
    for piece in row:
        words = len(piece.text.split())
        if found and piece.x0 - found[-1].x1 < _APART * max(size, piece.size):
            last = found.pop()
            found.append(_Segment(last.x0, max(last.x1, piece.x1), last.words + words))
        else:
            found.append(_Segment(piece.x0, piece.x1, words))
        size = piece.size
    return found


def _gutter(rows: list[list[_Segment]]) -> float | None:
    """Return the place of a gutter with the most rows of columns beside it, or None."""
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
    """Return by how many segments each of the places is crossed."""
    steps = [0] * (count + 1)
    for row in rows:
        for segment in row:
            begin = max(0, min(count, int((segment.x0 - first) / _STEP) + 1))
            end = max(begin, min(count, int((segment.x1 - first) / _STEP) + 1))
            steps[begin] += 1
            steps[end] -= 1
    crossed, open_ = [], 0
    for step in steps[:count]:
        open_ += step
        crossed.append(open_)
    return crossed


def _promising(places: list[float], crossed: list[int], rows: int) -> list[float]:
    """Return the middles of the stretches that the fewest segments cross, the widest of these first."""
    stretches: list[tuple[int, int, float]] = []
    begin = 0
    for number in range(1, len(places) + 1):
        if number == len(places) or crossed[number] != crossed[begin]:
            if crossed[begin] < 0.7 * rows:
                stretches.append((crossed[begin], begin - number, places[(begin + number - 1) // 2]))
            begin = number
    return [place for _, _, place in sorted(stretches)[:_TRIED]]


def _bands(rows: list[list[_Segment]], gutter: float) -> Iterator[tuple[int, int, bool]]:
    """Cut the rows where something stands across the gutter: first row, end, and whether they are columns."""
    crossing = [any(segment.x0 < gutter < segment.x1 for segment in row) for row in rows]
    start = 0
    for number in range(1, len(rows) + 1):
        if number == len(rows) or crossing[number] != crossing[start]:
            yield start, number, not crossing[start] and _are_columns(rows[start:number], gutter)
            start = number


def _are_columns(rows: list[list[_Segment]], gutter: float) -> bool:
    sides = (
        [[segment for segment in row if segment.x1 <= gutter] for row in rows],
        [[segment for segment in row if segment.x0 >= gutter] for row in rows],
    )
    width = max(s.x1 for row in rows for s in row) - min(s.x0 for row in rows for s in row)
    return all(_is_column([row for row in side if row], width) for side in sides)


def _is_column(rows: list[list[_Segment]], whole: float) -> bool:
    """Return whether one side of a gutter is prose: enough rows, wide enough, filled to their ends."""
    if len(rows) < _FEW_ROWS:
        return False
    width = max(row[-1].x1 for row in rows) - min(row[0].x0 for row in rows)
    if width < _NARROWEST * whole:
        return False
    filled = median(sum(segment.x1 - segment.x0 for segment in row) for row in rows)
    words = median(sum(segment.words for segment in row) for row in rows)
    return filled >= _FILLED * width and words >= _WORDS
