"""Paragraphs and headings put together: one text, its sections with exact offsets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

GAP = "\n\n"


@dataclass
class Outline:
    """A text that grows paragraph by paragraph, a blank line between two, and the sections that are open.

    A section begins with its heading and ends where the next heading of the same or a higher level stands:
    `text[start:end]` is the heading with all that stands below it.
    """

    length: int = 0
    sections: list[dict[str, Any]] = field(default_factory=list)
    _parts: list[str] = field(default_factory=list)
    _open: list[int] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All that was added."""
        return GAP.join(self._parts)

    @property
    def next(self) -> int:
        """Where the paragraph that is added next will begin."""
        return self.length + len(GAP) if self._parts else 0

    def add(self, paragraph: str) -> int:
        """Append a paragraph, which is not empty, and return where it begins."""
        start = self.next
        self._parts.append(paragraph)
        self.length = start + len(paragraph)
        return start

    def begin(self, heading: str, level: int) -> int:
        """Append a heading and open its section; level 1 is the highest. Return where it begins.

        >>> outline = Outline()
        >>> _ = outline.begin("Moorings", 1), outline.add("Twelve pounds."), outline.begin("Pilots", 1)
        >>> [outline.closed().text[s["start"]:s["end"]] for s in outline.sections]
        ['Moorings\\n\\nTwelve pounds.', 'Pilots']
        """
        self._close(level)
        start = self.add(heading)
        self._open.append(len(self.sections))
        self.sections.append({"heading": heading, "level": level, "start": start, "end": self.length})
        return start

    def closed(self) -> Outline:
        """End all open sections where the text ends; return the outline itself."""
        self._close(0)
        return self

    def _close(self, level: int) -> None:
        while self._open and self.sections[self._open[-1]]["level"] >= level:
            self.sections[self._open.pop()]["end"] = self.length
