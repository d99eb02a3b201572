"""Joins paragraphs and headings to one text with sections at exact offsets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

GAP = "\n\n"


class Heading(NamedTuple):
    """A heading that stands in a text: what it says, its level, and where its line begins."""

    text: str
    level: int
    start: int


def sections_in(text: str, headings: Iterable[Heading]) -> tuple[dict[str, Any], ...]:
    """Return the sections that headings, given in the order of the text, begin.

    Levels are closed up: the highest is 1. A section ends where the next of the same or a higher level
    begins, without trailing white space.

    >>> sections_in("Moorings\\nTwelve pounds.", [Heading("Moorings", 2, 0)])
    ({'heading': 'Moorings', 'level': 1, 'start': 0, 'end': 23},)
    """
    found = list(headings)
    levels = sorted({heading.level for heading in found})
    sections: list[dict[str, Any]] = []
    open_: list[dict[str, Any]] = []
    for heading in [*found, Heading("", 0, len(text))]:
        level = levels.index(heading.level) + 1 if heading.level else 0
        while open_ and open_[-1]["level"] >= level:
            section = open_.pop()
            section["end"] = section["start"] + len(text[section["start"] : heading.start].rstrip())
        open_.append({"heading": heading.text, "level": level, "start": heading.start, "end": 0})
        sections.append(open_[-1])
    return tuple(sections[:-1])  # the last one only ended the others


def line_starts(text: str) -> list[int]:
    """Return where each line begins, and where one after the last would."""
    return [0, *accumulate(len(line) + 1 for line in text.split("\n"))]


@dataclass
class OutlineBuilder:
    """A text that grows by paragraphs, separated by a blank line, and its open sections. `text[start:end]` of
    a section is its heading with everything below it.
    """

    length: int = 0
    sections: list[dict[str, Any]] = field(default_factory=list)
    _parts: list[str] = field(default_factory=list)
    _open: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, blocks: Sequence[tuple[int | None, str]]) -> OutlineBuilder:
        """Return the closed outline of (level, text) blocks; a paragraph has level None. The highest level is
        1.

        >>> found = OutlineBuilder.of([(2, "Moorings"), (None, "Free.")])
        >>> found.text, found.sections[0]["level"]
        ('Moorings\\n\\nFree.', 1)
        """
        levels = sorted({level for level, _ in blocks if level is not None})
        outline = cls()
        for level, text in blocks:
            if level is None:
                outline.add(text)
            else:
                outline.begin(text, levels.index(level) + 1)
        return outline.closed()

    @property
    def text(self) -> str:
        return GAP.join(self._parts)

    @property
    def first_heading(self) -> str | None:
        return self.sections[0]["heading"] if self.sections else None

    @property
    def next(self) -> int:
        return self.length + len(GAP) if self._parts else 0

    def add(self, paragraph: str) -> int:
        start = self.next
        self._parts.append(paragraph)
        self.length = start + len(paragraph)
        return start

    def begin(self, heading: str, level: int) -> int:
        """Append a heading and open its section; level 1 is the highest. Return where it begins.

        >>> outline = OutlineBuilder()
        >>> _ = outline.begin("Moorings", 1), outline.add("Twelve pounds."), outline.begin("Pilots", 1)
        >>> [outline.closed().text[s["start"]:s["end"]] for s in outline.sections]
        ['Moorings\\n\\nTwelve pounds.', 'Pilots']
        """
        self._close(level)
        start = self.add(heading)
        self._open.append(len(self.sections))
        self.sections.append({"heading": heading, "level": level, "start": start, "end": self.length})
        return start

    def closed(self) -> OutlineBuilder:
        self._close(0)
        return self

    def _close(self, level: int) -> None:
        while self._open and self.sections[self._open[-1]]["level"] >= level:
            self.sections[self._open.pop()]["end"] = self.length
