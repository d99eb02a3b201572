"""Joins lines to paragraphs and words hyphenated at a line's end."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from rag_assay.assets.cleaning.pdf.columns import TextLine
from rag_assay.assets.cleaning.unicode import repair_encoding, tidy

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


@dataclass(frozen=True)
class Type:
    """What the text itself is set in: size and weight of most letters, and lines apart in sizes."""

    size: float
    weight: int
    leading: float


@dataclass
class Paragraph:
    """Lines that belong together.

    pages: where each page that it lies on begins, (page from 0, offset in the text)
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
    """Join the lines of paragraphs; lines without a visible letter are left out."""
    shown = [(line, text) for line in lines if (text := " ".join(tidy(line.text).split()))]
    if not shown:
        return []
    usual = _usual([line for line, _ in shown])
    known = {part for _, text in shown for part in _PARTS.findall(text.casefold())}
    found: list[Paragraph] = []
    before: TextLine | None = None
    for line, text in shown:
        if before is not None and _goes_on(before, line, found[-1].text, text, usual):
            _join(found[-1], line, text, known)
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
    """Return whether two sizes differ so that a reader sees it."""
    return abs(one - other) > OTHER_SIZE * max(one, other)


def _goes_on(above: TextLine, below: TextLine, so_far: str, text: str, usual: Type) -> bool:
    """Return whether a line belongs to the paragraph of the line above it."""
    bold = usual.weight + BOLDER
    if (
        len(so_far) > _LONGEST
        or is_other_size(above.size, below.size)
        or (above.weight >= bold) != (below.weight >= bold)
    ):
        return False
    if above.block != below.block:
        return _goes_on_elsewhere(above, so_far, text)
    if _is_apart(above, below, usual) or _ITEM.match(text):
        return False
    ended = bool(_ENDS.search(so_far[-_LONGEST_WORD:]))
    filled = (above.x1 - above.left) / max(above.right - above.left, 1.0)
    is_indented = below.x0 - below.left > _INDENT * below.size >= above.x0 - above.left
    return not (ended and (filled < _SHORT or is_indented))


def _goes_on_elsewhere(above: TextLine, so_far: str, text: str) -> bool:
    """Return whether the last paragraph of a column or page goes on in the next one."""
    if _ENDS.search(so_far[-_LONGEST_WORD:]) or _ITEM.match(text):
        return False
    if text[0].islower() or so_far.endswith("-"):
        return True
    return above.x1 - above.left > _FULL * (above.right - above.left)


def _is_apart(above: TextLine, below: TextLine, usual: Type) -> bool:
    step = above.y - below.y
    return step > _WIDER * max(usual.leading, 1.0) * max(above.size, below.size) or step < 0


def _join(part: Paragraph, line: TextLine, text: str, known: set[str]) -> None:
    head, gap = join_lines(part.text, text, known)
    if part.pages[-1][0] != line.page:
        part.pages.append((line.page, len(head) + len(gap)))
    part.text = f"{head}{gap}{text}"
    part.lines += 1


def join_lines(above: str, below: str, known: set[str]) -> tuple[str, str]:
    """Return the text above as it is written before the line below, and what stands between them.

    known: words of the file, those with a hyphen too, in small letters: "well-" and "known" keep their hyphen
    if the file says "well-known" within a line and nowhere "wellknown"

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
    """Repair the charset of a paragraph; where that moves its letters, its pages are found by share."""
    text = tidy(repair_encoding(part.text))
    if text != part.text:
        share = len(text) / len(part.text)
        part.pages = [(page, min(round(offset * share), len(text))) for page, offset in part.pages]
        part.text = text
    return part
