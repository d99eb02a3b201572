"""The sentences of passages that may stand in an answer: whole ones, without headings and numbering.

Neighbouring chunks are put together first, so that a sentence which a chunk's edge cuts is whole where both
were found. A line that ends without a full stop goes on in the next one, unless it is a heading, an item of a
list or a row of a table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol

from rag_assay.assets.chunking.sentence_splitter import sentence_places
from rag_assay.evals.retrieval.question_words import stop_words

REMEMBERED = 2048  # stretches whose sentences are kept
_HEADING_WORDS = 14  # a longer line without a full stop is text that goes on in the next one
_CITED = r"\((?:EC|EU|EEC|ECSC|Euratom|EG|EWG|EAG|CE|UE)\b[^()]{0,20}\)"
_ITEM = (
    rf"\s*(?:[-–—•*·▪◦]|(?!{_CITED})\(?(?:[a-z]{{1,2}}|[ivxlc]{{1,6}}|\d{{1,3}}[a-z]?)\)|\d{{1,3}}[a-z]?\.)"
    r"(?!\d)(?:\s+|$)"
)
_NUMBERED = r"(?:\s*\(?\d{1,3}[a-z]?[.)])(?=\s)"
_RECITAL = r"\s*\(\d{1,3}[a-z]?\)\s+(?=[^\W\d_a-z])"
_DEFINITION = r"\s*\(\d{1,3}[a-z]?\)\s+[\"'„“‚‘»«›‹]"
_TITLE = (
    r"\s*(?:(?:Article|Artikel|Section|Abschnitt|Chapter|Kapitel|Annex|Anhang|Title|Titel|Part|Teil|Recital)\b"
    r"\s*[\dIVXLC]+|§+\s*\d+|(?:CHAPTER|SECTION|ANNEX|TITLE|PART|KAPITEL|ABSCHNITT|ANHANG|TITEL|TEIL)\b)"
)
_ENDED = r"[.!?…;:,。！？；：，、؟؛،।][\"'”“’‘»«›‹)\]]*\s*$"
_STOPPED = r"[.!?…;:。！？；：؟؛।][\"'”“’‘»«›‹)\]]*\s*$"
_WORD = r"\w+"
_QUOTATION = r"„[^„“”]{1,200}[“”]|“[^“”]{1,200}”|«[^«»]{1,200}»"
_SHORT = r"(?:\b(?:Nos?|Nrn?|Art|Arts|Abs|Ziff|Buchst|lit|[Ss]ubpara|[Pp]aras?|Unterabs)\.?|§)$"


class PlacedText(Protocol):
    """What is read of a passage."""

    @property
    def text(self) -> str: ...
    @property
    def document(self) -> str: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...


class PassageStretch(NamedTuple):
    """Text of a document that some passages hold without a gap.

    places: of the passages in the request
    """

    start: int
    text: str
    places: tuple[int, ...]

    @property
    def end(self) -> int:
        return self.start + len(self.text)


class Unit(NamedTuple):
    """A sentence, an item of a list or a row of a table, with white space collapsed and without its number.

    start, end: characters of the stretch that it was read from
    lead: the clause before a list that its items complete; empty where it is no item
    heading: the last line above it that is one
    paragraph: which paragraph of the stretch it stands in, from 0
    is_broken: the stretch begins or ends within it, or it is a title: it has no full stop
    goes_on: it follows a sentence of its paragraph, and the stretch ends within it
    is_recital: it stands in a paragraph such as "(3) The market is small." without a heading, by which an act
        gives its reasons
    """

    text: str
    start: int
    end: int
    lead: str
    heading: str
    paragraph: int
    is_broken: bool
    goes_on: bool = False
    is_recital: bool = False


def stretches(
    passages: Sequence[PlacedText], places: Sequence[int], *, keep_lines: bool = True
) -> Iterator[PassageStretch]:
    """Put passages of one document together by their offsets.

    One character between neighbouring chunks may belong to neither. It becomes a space.

    keep_lines: after a whole sentence it becomes a line feed, so that the heading of the next chunk stays a
        line of its own
    """
    ordered = sorted(places, key=lambda place: (passages[place].start, place))
    current: PassageStretch | None = None
    for place in ordered:
        passage = passages[place]
        if current is not None and passage.start <= current.end + 1:
            is_ended = (
                keep_lines and re.search(_STOPPED, current.text) and not re.search(_SHORT, current.text)
            )
            blank = ("\n" if is_ended else " ") * (passage.start - current.end)
            rest = passage.text[max(0, current.end - passage.start) :]
            current = PassageStretch(current.start, current.text + blank + rest, (*current.places, place))
            continue
        if current is not None:
            yield current
        current = PassageStretch(passage.start, passage.text, (place,))
    if current is not None:
        yield current


def is_placed(passage: PlacedText) -> bool:
    return bool(passage.document) and passage.end - passage.start == len(passage.text)


def passage_stretches(passages: Sequence[PlacedText], *, keep_lines: bool = True) -> list[PassageStretch]:
    """Return the stretches of passages, those of a document together, in the order of the best passage.

    A passage without a document, or whose text is not as long as its offsets say, stands for itself.
    """
    documents: dict[object, list[int]] = {}
    for place, passage in enumerate(passages):
        documents.setdefault(passage.document if is_placed(passage) else place, []).append(place)
    return [
        one for places in documents.values() for one in stretches(passages, places, keep_lines=keep_lines)
    ]


def holder(start: int, end: int, stretch: PassageStretch, passages: Sequence[PlacedText]) -> int:
    """Return the passage that holds most of a document's characters; of equals, the one ranked first."""
    if len(stretch.places) == 1:
        return stretch.places[0]

    def held(place: int) -> int:
        return min(end, passages[place].end) - max(start, passages[place].start)

    return max(stretch.places, key=lambda place: (held(place), -place))


@lru_cache(maxsize=REMEMBERED)
def answer_units(text: str, begins_whole: bool = True) -> tuple[Unit, ...]:
    """Return the units of a text in their order.

    begins_whole: whether the text is known to begin with a sentence

    >>> act = "Article 5\\nStocks\\n1. States hold, by Regulation\\n(EC) No 1099/2008:\\n(a) oil;\\n(b) gas."
    >>> [(one.text, one.lead, one.heading) for one in answer_units(act)][1:]
    [('oil;', 'States hold, by Regulation (EC) No 1099/2008:', 'Stocks'), \
('gas.', 'States hold, by Regulation (EC) No 1099/2008:', 'Stocks')]
    """
    found: list[Unit] = []
    heading = lead = ""
    lead_is_numbered = False
    paragraphs = list(_paragraphs(text))
    for number, (kind, start, end) in enumerate(paragraphs):
        if kind == "heading":
            heading, lead = " ".join(text[start:end].split()), ""
            continue
        item = re.compile(_ITEM).match(text, start, end)
        if number == 0 and not begins_whole and _may_be_cut(text[start:]):
            item = None
        begin = item.end() if item else start
        is_numbered = item is not None and re.compile(_NUMBERED).match(text, start, end) is not None
        is_recital = not heading and re.compile(_RECITAL).match(text, start, end) is not None
        is_row = kind == "row"
        places = [(0, end - begin)] if is_row else _merged(text[begin:end].replace("\n", " "))
        if is_numbered and lead_is_numbered:
            lead = ""  # the next paragraph of an article, and no item of the list within the one before
        for a, b in places:
            plain = " ".join(text[begin + a : begin + b].split())
            if not re.search(_WORD, plain):
                continue
            is_first = not found and not begins_whole and not _begins(plain, item is not None)
            cut = is_first or (kind == "text" and item is None and not re.search(_STOPPED, plain))
            held = lead if item is not None else ""
            follows = bool(found) and found[-1].paragraph == number and number == len(paragraphs) - 1
            goes_on = cut and not is_first and follows and b == places[-1][1]
            unit = Unit(plain, begin + a, begin + b, held, heading, number, cut, goes_on, is_recital)
            found.append(unit)
            if plain.endswith(":"):
                lead, lead_is_numbered = plain, is_numbered
            elif item is None:
                lead = ""
    return tuple(found)


def _may_be_cut(text: str) -> bool:
    """Whether a number at a chunk's beginning may be the rest of a sentence, as in "16. Januar kam er".

    "(3) The" is a recital. "4. States" is a paragraph where the fifth one follows, and so is "4. The".
    """
    numbered = re.match(rf"{_NUMBERED}\s+", text)
    if numbered is None or re.match(_RECITAL, text) or re.match(_DEFINITION, text):
        return False
    word = re.compile(_WORD).match(text, numbered.end())
    following = int(re.findall(r"\d+", numbered[0])[0]) + 1
    is_paragraph = word is not None and word[0][:1].isupper() and word[0].casefold() in stop_words()
    return not (is_paragraph or re.search(rf"\n\s*\(?{following}[.)]\s", text))


def _begins(text: str, is_item: bool) -> bool:
    first = text.lstrip("\"'„“‚‘»«›‹([")[:1]
    return is_item or first.isupper() or (first.isdigit() and not re.match(_NUMBERED, text))


def _paragraphs(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield (text | row | heading, start, end): lines that belong together."""
    lines = [(match.start(), match.end()) for match in re.finditer(r"[^\n]+", text) if match[0].strip()]
    begin: int | None = None
    for at, (start, end) in enumerate(lines):
        following = text[lines[at + 1][0] : lines[at + 1][1]] if at + 1 < len(lines) else None
        has_gap = following is not None and "\n\n" in text[end : lines[at + 1][0]]
        line = text[start:end]
        if begin is None and _is_row(line):
            yield "row", start, end
            continue
        if begin is None and _is_heading(line, following):
            yield "heading", start, end
            continue
        begin = start if begin is None else begin
        goes_on = following is not None and not has_gap and _goes_on(line, following)
        if not goes_on:
            yield "text", begin, end
            begin = None


def _is_row(line: str) -> bool:
    return line.count(" | ") >= 1 or line.count("\t") >= 1


def _is_heading(line: str, following: str | None) -> bool:
    plain = line.strip().lstrip("#").strip()
    if line.lstrip().startswith("#"):
        return True
    few = len(plain.split()) <= _HEADING_WORDS
    if not few or re.search(_STOPPED, plain):
        return False
    if re.match(_TITLE, plain):
        return True
    if following is None or re.match(_ITEM, line) or plain.endswith(","):
        return False
    return not _continues(plain, following)


def _goes_on(line: str, following: str) -> bool:
    if re.match(_ITEM, following) or _is_row(following):
        return bool(re.search(_SHORT, line.strip()))
    if re.search(_STOPPED, line):
        return False
    return bool(_continues(line, following)) or (
        len(line.split()) > _HEADING_WORDS and not re.match(_ITEM, line)
    )


def _continues(line: str, following: str) -> bool:
    """Whether a line without a full stop ends within a sentence that the next one goes on with."""
    first = following.lstrip()
    return first[:1].islower() or re.match(_CITED, first) is not None or line.rstrip().endswith((",", "-"))


def _merged(text: str) -> list[tuple[int, int]]:
    """Return the places of sentences; what is cut within brackets, a short quotation or after "Nr." is put
    together.

    >>> [(a, b) for a, b in _merged("Er lobte. „Gut. Sehr gut“, sagte er.")]
    [(0, 9), (10, 36)]
    """
    places: list[tuple[int, int]] = []
    quotations = [match.span() for match in re.finditer(_QUOTATION, text)]
    for start, end in sentence_places(text):
        if places:
            first, last = places[-1]
            before = text[first:last]
            opens = before.count("(") > before.count(")") and ")" in text[start:end]
            opens = opens or any(a < start < b for a, b in quotations)
            if opens or re.search(_SHORT, before) or text[start : start + 1].islower():
                places[-1] = (first, end)
                continue
        places.append((start, end))
    return places
