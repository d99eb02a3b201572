"""The text of an act, put together line by line with the sections that its lines begin."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

RANKS = {
    "preamble": 1, "annex": 1, "statement": 1, "final": 1, "notes": 1,
    "recital": 2, "part": 2, "title": 3, "chapter": 4, "section": 5, "subsection": 6, "article": 7,
    "annex part": 10,
}  # fmt: skip


@dataclass
class Act:
    """The text of an act with its sections; `title` is what stands above its preamble."""

    text: str
    title: str
    kind: str  # of markup: "marked" by class names, or "plain"
    sections: tuple[dict[str, Any], ...]
    structure: tuple[dict[str, Any], ...]
    remarks: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Start:
    """What a line begins; `rank` is that of its kind where it has none of its own."""

    kind: str
    number: str | None = None
    heading: str = ""
    rank: int = 0


@dataclass
class Builder:
    """Puts text together and keeps the sections that are open."""

    parts: list[str] = field(default_factory=list)
    length: int = 0
    sections: list[dict[str, Any]] = field(default_factory=list)
    structure: list[dict[str, Any]] = field(default_factory=list)
    open: list[tuple[int, int]] = field(default_factory=list)  # rank, place in `sections`

    def add(self, text: str, *, apart: bool = False) -> int:
        """Append a line and return where it begins."""
        gap = "" if not self.parts else "\n\n" if apart else "\n"
        self.parts.append(gap + text)
        start = self.length + len(gap)
        self.length = start + len(text)
        return start

    def begin(self, start: Start, line: str) -> None:
        """Append a line that begins a section; what cannot hold it ends before it."""
        rank = start.rank or RANKS[start.kind]
        self.close(rank)
        at = self.add(line, apart=True)
        level = len(self.open) + 1
        self.open.append((rank, len(self.sections)))
        self.sections.append(
            {"heading": start.heading or line, "level": level, "start": at, "end": self.length}
        )
        entry: dict[str, Any] = {"kind": start.kind, "number": start.number}
        annex = next(
            (
                self.structure[place]["number"] or ""
                for _, place in self.open[:-1]
                if self.structure[place]["kind"] in ("annex", "statement")
            ),
            None,
        )
        self.structure.append(entry if annex is None else {**entry, "annex": annex})

    def close(self, rank: int) -> None:
        """End all open sections that one of this rank cannot lie in; their text ends here."""
        while self.open and self.open[-1][0] >= rank:
            self.sections[self.open.pop()[1]]["end"] = self.length

    def head(self, line: str) -> None:
        """Take a line as (more of) the heading of the section that was begun last."""
        section = self.sections[-1]
        section["heading"] = (
            f"{section['heading']} – {line}"
            if is_bare(self.structure[-1], section)
            else f"{section['heading']} {line}"
        )
        self.add(line)

    @property
    def kind(self) -> str | None:
        """Of the innermost open section."""
        return self.structure[self.open[-1][1]]["kind"] if self.open else None


def is_bare(entry: dict[str, Any], section: dict[str, Any]) -> bool:
    """Return whether a section has its label alone, and no heading yet."""
    return " – " not in section["heading"] and entry["kind"] != "statement"
