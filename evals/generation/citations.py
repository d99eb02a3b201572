"""Reads the markers `[n]` in an answer: which passage each names, and which sentence it stands in.

A marker is one number, or several, in square brackets: `[1]`, `[1, 2]`, `[1; 3]`, `[1-3]`, `[2 und 4]`,
`[1][2]`, `[[1]]`, `[^1]`, `\\[1\\]`, `【1】`, `【1†source】`, `［1］`; also with a noun (`[Passage 1]`,
`[Quelle 2]`); in round brackets with such a noun only (`(passage 1)`, `(vgl. Quelle 2)`); or as a link whose
text is nothing else (`[1](https://…)`).

None is a number in round brackets alone, which numbers lists and the paragraphs of an act; four digits
(`[2020]`); the text of any other link; code; and what was copied from a passage together with the words
around it, such as an act's own footnote `[1]`: that says nothing of where the answer is from.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from rag_assay.warehouse.eurlex_notice import EURLEX, act_url, celex_in

MOST_IN_A_RANGE = 100  # a longer one names its two ends only

_LIST = r"\d{1,3}(?:\s*[-–—‑]\s*\d{1,3})?"
_AND = r"\s*(?:[,;&]|\bund\b|\band\b|\bu\.|\bsowie\b)\s*"
_NOUN = r"(?:passages?|passagen|sources?|quellen?|excerpts?|textstellen?)"
_NOUN_IN_SQUARE = (
    rf"(?:{_NOUN}|documents?|docs?|dokumente?|texts?|texte|references?|refs?\.?|citations?|nr\.|no\.|\#|\^)"
)
_SEE = r"(?:(?:see|cf\.|siehe|vgl\.)\s+)?"
_NUMBERS = rf"{_LIST}(?:{_AND}{_NOUN}?\s*{_LIST}){{0,99}}"
_GROUP = rf"""(?xi)(?<![!\\])(?:
      \\?[\[【［]{{1,2}}\s*(?P<square>{_SEE}(?:{_NOUN_IN_SQUARE}\s*:?\s*)?{_NUMBERS})
        \s*(?:†[^\]】］\n]{{0,80}})?\\?[\]】］]{{1,2}}
        (?:\((?:https?:|/|\#|www\.)[^()\s]{{0,2000}}\))?
      |\(\s*(?P<round>{_SEE}{_NOUN}\s*:?\s*{_NUMBERS})\s*\)
    )"""
_RANGE = r"(\d+)(?:\s*[-–—‑]\s*(\d+))?"
_CODE = r"(?s)```.*?(?:```|\Z)|`[^`\n]*`"
_LINE = r"[^\n]+"
_BULLET = r"[\s>]*(?:[-–•*·+]|\d{1,3}[.)])?[\s*_]*"
_HEADING = r"""(?xi)(?:(?:^|(?<=\n))[ \t#>*_]*|(?<=[.!?…])[ \t]+)
      (?:sources?|references?|citations?|quellen?(?:angaben|nachweise?|verzeichnis)?|belege?|nachweise?|fundstellen?)
      [ \t*_]*(?::[ \t*_]*|(?=\n|\Z))"""
_SIGNS = r"[^\w\[\]【】［］()]+"
_WORD = re.compile(r"\w")
_LOOK = 400  # characters in which they are looked for
_CONTEXT = 3  # words beside a marker that say whether it was copied with them


class Marker(NamedTuple):
    """One number in one pair of brackets; sentence: from 0; None: in a list of sources"""

    number: int
    sentence: int | None
    start: int
    end: int


class _Group(NamedTuple):
    start: int
    end: int
    numbers: tuple[int, ...]


def read_markers(text: str, passages: Sequence[str] = ()) -> list[Marker]:
    """Return the markers of an answer in their order.

    >>> [(one.number, one.sentence) for one in read_markers("It stays in port [1, 3]. It is old.[2] Yes.")]
    [(1, 0), (3, 0), (2, 1)]
    >>> read_markers("In [2020], by `x[1]` and Art. 5 (1), see [the page](https://example.org/1).")
    []
    """
    found = _groups(text)
    places, end = _claims(text, found)
    groups = _own(found, text, passages)
    sentences = _sentences_of(groups, places, text, end)
    return [
        Marker(number, sentence, group.start, group.end)
        for group, sentence in zip(groups, sentences, strict=True)
        for number in group.numbers
    ]


def claims(text: str) -> list[tuple[int, int]]:
    """Return (start, end) of each sentence of an answer; a list of sources at its end is none.

    >>> answer = "It stays.[1] It sails. [2]\\n\\nSources:\\n[1] a\\n[2] b"
    >>> [answer[start:end] for start, end in claims(answer)]
    ['It stays.', 'It sails.']
    """
    return _claims(text, _groups(text))[0]


def without_markers(text: str) -> str:
    """
    >>> without_markers("It stays [1]. It sails.[2, 3]\\n\\nSources: [1] a")
    'It stays. It sails.'
    """
    groups = _groups(text)
    if not groups:
        return text
    _, end = _claims(text, groups)
    kept, at = [], 0
    for group in groups:
        if group.start >= end:
            break
        kept.append(text[at : group.start].rstrip(" \t\xa0\u202f"))
        at = group.end
    kept.append(text[at:end])
    return "".join(kept).strip()


def public_url(url: str | None, language: str | None) -> str | None:
    """Return where a reader finds a document: of an act of EUR-Lex its official page in a language.

    An act is known by the CELEX number in its address on a host of the EU, or in its file's name.

    >>> public_url("32019L0944.html", "de")
    'https://eur-lex.europa.eu/legal-content/DE/TXT/HTML/?uri=CELEX:32019L0944'
    >>> public_url("https://example.org/32019L0944", "de")
    'https://example.org/32019L0944'
    """
    if not url:
        return None
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return url
    celex = celex_in(url) if host in {"", EURLEX, "publications.europa.eu"} else None
    if celex is None:
        return url
    written = re.search(r"/legal-content/([A-Za-z]{2})/", url)
    return str(act_url(celex, EURLEX, language or (written[1] if written else "en")))


# Finding them ----------------------------------------------------------------------------------------------


def _groups(text: str) -> list[_Group]:
    code = [one.span() for one in re.finditer(_CODE, text)]
    found = []
    for match in re.finditer(_GROUP, text):
        at = bisect(code, (match.start(), len(text))) - 1
        start, end = code[at] if at >= 0 and match.start() < code[at][1] else match.span()
        if text[start:end].strip("` ") == match[0].strip():  # models set whole markers as code, too
            found.append(_Group(start, end, tuple(_numbers(match["square"] or match["round"]))))
    return found


def _numbers(written: str) -> Iterator[int]:
    for match in re.finditer(_RANGE, written):
        first, last = int(match[1]), int(match[2] or match[1])
        if 0 <= last - first < MOST_IN_A_RANGE:
            yield from range(first, last + 1)
        else:
            yield from (first, last)


def _own(groups: Sequence[_Group], text: str, passages: Sequence[str]) -> list[_Group]:
    """Return the brackets that were not copied from a passage, by the three words before (or after) them."""
    squeezed = [_squeezed(passage) for passage in passages] if groups else []
    found = []
    for group in groups:
        literal = text[group.start : group.end]
        before = text[max(0, group.start - _LOOK) : group.start].split()[-_CONTEXT:]
        after = [] if len(before) == _CONTEXT else text[group.end : group.end + _LOOK].split()[:_CONTEXT]
        copied = _squeezed("".join([*before, literal, *after]))
        told = len(before) + len(after) >= _CONTEXT
        if not told or not any(copied in passage for passage in squeezed):
            found.append(group)
    return found


def _squeezed(text: str) -> str:
    return re.sub(_SIGNS, "", text).casefold()


# The sentence that each belongs to -------------------------------------------------------------------------


def _sources_begin(text: str, groups: Sequence[_Group]) -> int:
    """Return where a list of sources begins that ends the text, else the text's length."""
    starts = {group.start: group.end for group in groups}
    listed = _listed_from(text, starts)
    for heading in re.finditer(_HEADING, text):
        line_end = text.find("\n", heading.end())
        line_end = len(text) if line_end < 0 else line_end
        inline = heading.start() > 0 and text[heading.start() - 1] != "\n"
        rest = _blanked(text, groups, heading.end(), line_end)
        of_markers = heading.end() in starts and (not inline or not re.search(r"\w", rest))
        if (of_markers or (not inline and not rest.strip())) and line_end >= listed:
            return heading.start()
    begin = len(text)
    for start, end in reversed(_lines(text)):
        after = starts.get(_first_of(text, start))
        if after is not None and text[after : after + 1] == ":":
            begin = start
        elif text[start:end].strip():
            break
    return begin


def _listed_from(text: str, starts: Mapping[int, int]) -> int:
    for start, end in reversed(_lines(text)):
        first = _first_of(text, start)
        if text[start:end].strip() and first == start and first not in starts:
            return end
    return 0


def _lines(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in re.finditer(_LINE, text)]


def _first_of(text: str, start: int) -> int:
    sign = re.compile(_BULLET).match(text, start)
    return sign.end() if sign else start


def _blanked(text: str, groups: Sequence[_Group], start: int, end: int) -> str:
    found, at = [], start
    for group in groups:
        if start <= group.start and group.end <= end:
            found += [text[at : group.start], " " * (group.end - group.start)]
            at = group.end
    return "".join([*found, text[at:end]])


def _claims(text: str, groups: Sequence[_Group]) -> tuple[list[tuple[int, int]], int]:
    from rag_assay.assets.chunking.sentence_splitter import (
        sentence_places,  # loads numpy, which pages do without
    )

    end = _sources_begin(text, groups)
    plain = _blanked(text, groups, 0, end)  # a full stop before a bracket ends its sentence
    return [place for place in sentence_places(plain) if _WORD.search(plain, *place)], end


def _sentences_of(
    groups: Sequence[_Group], places: Sequence[tuple[int, int]], text: str, end: int
) -> list[int | None]:
    """Return the sentence of each group of markers: between two, the one before it, unless it begins a line
    or all markers of the text stand before their sentences.
    """
    leading = bool(places and groups) and groups[0].start < places[0][0] and groups[-1].start < places[-1][0]
    begins = [start for start, _ in places]
    found: list[int | None] = []
    for group in groups:
        if group.start >= end or not places:
            found.append(None)
            continue
        begun = bisect(begins, group.start)
        inside = begun > 0 and group.start < places[begun - 1][1]
        before = text[places[begun - 1][1] if begun else 0 : group.start]
        next_one = begun < len(places) and "\n" not in text[group.end : places[begun][0]]
        if not inside and next_one and (begun == 0 or leading or "\n" in before):
            found.append(begun)
        else:
            found.append(max(0, begun - 1))
    return found
