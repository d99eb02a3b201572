"""Tells apart an act's text from what it quotes: articles and annexes inserted into other acts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import rag_assay.assets.cleaning.eurlex.act_words as words
from rag_assay.assets.cleaning.eurlex.act_lines import ActLine

OPENING = "‘‚“„«»\"'"
ARTICLES = frozenset({"ti-art", "title-article-norm", "Titrearticle"})
_BY_CLASS = "title-article-norm"  # what is quoted is a `title-article-quoted` there
# What closes a quotation, by what opens it.
_CLOSING = {"‘": "’", "‚": "‘’", "“": "”", "„": "“”", "«": "»", "»": "«", '"': '"', "'": "'"}
_MARK = re.compile("[‘’‚“”„«»\"']")
_AFTER = re.compile(r"[\s.;,:)\]]*$")
_BEFORE = re.compile(r"(?:^|[:(]\s*|following\s*|folgende\w*\s*)$")
_BEFORE_PART = re.compile(r"(?:^|[\s:(])$")


class _Open(NamedTuple):
    """A quotation that goes on below the line that opens it."""

    mark: str
    depth: int
    closed: bool  # a line below closes it


def find_quotations(lines: Sequence[ActLine], *, marked: bool) -> list[bool]:
    """Return for each line whether it begins in a quotation: such a line begins no part of the act itself.

    Where markup distinguishes the act's own articles (``marked``: they have a class of their own), it
    decides. Elsewhere the quotation marks do; an unclosed quotation ends where the act's own numbering goes
    on.
    """
    return _Reader(lines, marked).read()


class _Reader:
    def __init__(self, lines: Sequence[ActLine], marked: bool) -> None:
        self.lines = lines
        self.marked = marked
        self.open: _Open | None = None
        self.last = 0  # number of the act's own article that was read last, without its letter
        self.next = [0]  # for each place, number of the first article that a line there or below names
        for line in reversed(lines):
            self.next.append(self._number(line) or self.next[-1])
        self.next.reverse()

    def read(self) -> list[bool]:
        found = []
        eli = ""
        for place, line in enumerate(self.lines):
            of_act = _names_article_of_act(line, eli)
            eli = eli if line.deleted else line.eli
            found.append(not line.deleted and self._take(place, line, of_act))
        return found

    def _take(self, place: int, line: ActLine, of_act: bool | None) -> bool:
        if self.open and (of_act or self._ends_before(self.open, line)):
            self.open = None
        if self.open:
            if _closes(line.text, self.open.mark):
                self.open = None
            return True
        opening = _opening(line)
        if opening:
            mark, names_part = opening
            end = self._end_of(place, mark, line.depth)
            closed = end is not None and not self._holds_article_of_act(place, end)
            self.open = _Open(mark, line.depth, closed) if closed or names_part else None
        is_quoted = of_act is False or (of_act is None and line.text[:1] in OPENING and bool(opening))
        if not is_quoted:
            self.last = 0 if self._is_annex(line) else max(self.last, self._number(line))
        return is_quoted

    def _ends_before(self, quotation: _Open, line: ActLine) -> bool:
        if line.deleted or "row" in line.classes:
            return False
        if line.depth < quotation.depth:
            return True
        if quotation.closed or line.depth:
            return False
        return self._number(line) == self.last + 1 or words.is_final(line.text) or self._is_annex(line)

    def _end_of(self, place: int, mark: str, depth: int) -> int | None:
        """Return which line closes a quotation before another one opens, or its cell ends."""
        for at, line in enumerate(self.lines[place + 1 :], place + 1):
            if line.deleted:
                continue
            if line.depth < depth:
                return None
            if _closes(line.text, mark):
                return at
            opening = _opening(line)
            if opening and opening[0] == mark:
                return None
        return None

    def _holds_article_of_act(self, place: int, end: int) -> bool:
        within = {self._number(line) for line in self.lines[place + 1 : end + 1]}
        of_act, below = self.last + 1, self.next[end + 1]
        return of_act in within and below != of_act and (below > of_act or of_act + 1 in within)

    def _is_annex(self, line: ActLine) -> bool:
        return not line.depth and bool(words.annex(line.text)) and (not self.marked or bool(line.classes))

    def _number(self, line: ActLine) -> int:
        if line.depth:
            return 0
        if self.marked:
            number = words.marked_number(line.text) if line.classes & ARTICLES else None
        else:
            number = words.article(line.text)
        return words.leading(number or "")


def _names_article_of_act(line: ActLine, before: str) -> bool | None:
    """Return by markup whether a line names an article of the act itself; None if it does not say.

    before: the `eli` of the previous line: the title comes first in the element of its article
    """
    if not line.classes & ARTICLES or line.depth:
        return None
    if _BY_CLASS in line.classes and line.text[:1] not in OPENING:
        return True
    if line.eli.startswith("art"):
        return line.eli != before
    return None


def _opening(line: ActLine) -> tuple[str, bool] | None:
    """Return the mark of the quotation that a line opens and leaves open, and whether a part's name follows.

    >>> _opening(ActLine("the following is inserted: \\"Article 8a"))
    ('"', True)
    >>> _opening(ActLine("‘lamp’ means a thing that gives light;")) is None
    True
    """
    if "row" in line.classes or not _MARK.search(line.text):
        return None
    for found in reversed(list(_MARK.finditer(line.text))):
        mark, rest = found[0], line.text[found.end() :].lstrip()
        if mark not in _CLOSING or not rest:
            continue
        if words.is_structure(rest) and _BEFORE_PART.search(line.text[: found.start()]):
            return mark, True
        if mark != "'" and _BEFORE.search(line.text[: found.start()]) and _is_left_open(rest, mark):
            return mark, False
    return None


def _is_left_open(rest: str, mark: str) -> bool:
    if mark == '"':
        return rest.count('"') % 2 == 0
    level = 1
    for found in _MARK.finditer(rest):
        if found[0] in _CLOSING[mark] and not rest[found.end() : found.end() + 1].isalnum():
            level -= 1
        elif found[0] == mark:
            level += 1
        if not level:
            return False
    return True


def _closes(text: str, mark: str) -> bool:
    """Return whether a line closes a quotation that was opened above it.

    >>> _closes("Light is free.’;", "‘"), _closes("the so-called ‘lamp’", "‘")
    (True, False)
    """
    closing = _CLOSING[mark]
    if mark in "\"'":
        return _AFTER.sub("", text).endswith(mark) and (mark == "'" or text.count(mark) % 2 == 1)
    level = 0
    for found in _MARK.finditer(text):
        if found[0] == mark:
            level += 1
        elif found[0] == "“" and text[: found.start()][-1:] in ("", " ", "("):
            continue  # it opens another one
        elif found[0] in closing and level:
            level -= 1 if not text[found.end() : found.end() + 1].isalnum() else 0
        elif found[0] in closing and (closing != "’" or _AFTER.match(text, found.end())):
            return True
    return False
