"""The headings above each part of a text."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from rag_assay.assets.chunking.contract import Section


class SectionSpan(NamedTuple):
    """A part of a text in which no section begins or ends; ``chain``: its sections, outermost first."""

    start: int
    end: int
    chain: tuple[Section, ...]

    @property
    def group(self) -> tuple[Section, ...]:
        """The sections that hold it and its siblings; its own one too, where others lie within that."""
        if self.chain and (self.start, self.end) == (self.chain[-1].start, self.chain[-1].end):
            return self.chain[:-1]
        return self.chain


class SectionTree:
    """The sections of a text of some length, in any order; they may overlap or reach beyond the text."""

    def __init__(self, sections: Sequence[Section], length: int) -> None:
        sound = [(s.start, n, s) for n, s in enumerate(sections) if 0 <= s.start < s.end and s.start < length]
        ends = [min(s.end, length) for _, _, s in sound]
        bounds = sorted({0, length, *(start for start, _, _ in sound), *ends})
        coming = sorted(sound, reverse=True)
        inside: list[tuple[int, int, Section]] = []
        self.spans: list[SectionSpan] = []
        for start, end in pairwise(bounds):
            inside = [one for one in inside if one[2].end > start]
            while coming and coming[-1][0] == start:
                _, number, section = coming.pop()
                inside.append((section.level, number, section))
            self.spans.append(SectionSpan(start, end, tuple(section for *_, section in sorted(inside))))
        self._starts = [span.start for span in self.spans]

    def headings(self, position: int) -> list[str]:
        """Return the headings above a character position, outermost first.

        >>> SectionTree([Section("Chapter I", 1, 0, 9), Section("Article 1", 2, 3, 9)], 9).headings(4)
        ['Chapter I', 'Article 1']
        """
        number = bisect_right(self._starts, position) - 1
        if number < 0 or position >= self.spans[number].end:
            return []
        return [section.heading for section in self.spans[number].chain]
