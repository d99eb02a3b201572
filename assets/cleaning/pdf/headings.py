"""Headings of a PDF and their levels, by font size, weight and numbering."""

from __future__ import annotations

import re

from rag_assay.assets.cleaning.pdf.paragraphs import Paragraph, is_other_size

_LARGER = 1.1  # times the size of the text
_LONGEST = 200  # characters
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
_Look = tuple[float, bool]


def headings(parts: list[Paragraph]) -> dict[int, int]:
    """Return the places of the headings among the paragraphs, with their levels from 1.

    Sizes that hardly differ are one level, the largest first; bold text of the text's own size comes below
    all larger sizes. Where headings of one look are numbered, each further number is one level more.

    Where bold text is no exception, it tells no headings; a file of headings only has none.
    """
    found = {place: part for place, part in enumerate(parts) if is_heading(part, _after(parts, place))}
    if sum(len(part.text) for part in found.values()) > _MOST_HEADING * sum(len(part.text) for part in parts):
        found = {place: part for place, part in found.items() if _is_larger(part)}
    if len(found) == len(parts):
        return {}
    ranks = _ranks(found)
    return {place: min(_level(part, ranks, found), _LEVELS) for place, part in found.items()}


def is_heading(part: Paragraph, following: Paragraph | None) -> bool:
    """Return whether a paragraph looks like a heading: larger, bold, or numbered and standing apart."""
    text = part.text
    if not 2 <= len(text) <= _LONGEST or part.lines > _MOST_LINES or not any(map(str.isalpha, text)):
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
    """Return whether a paragraph is what is set largest on its file's first page with text."""
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
    """Return the level of each look, sizes that hardly differ being one."""
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
