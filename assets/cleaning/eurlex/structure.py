"""The structure of an act: which line begins a recital, a chapter, an article, an annex."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from assets.cleaning.eurlex import words
from assets.cleaning.eurlex.lines import Line

_TITLE = frozenset(
    {
        "doc-ti",
        "title-doc-first",
        "title-doc-last",
        "Statut",
        "Typedudocument",
        "Titreobjet",
        "Typedudocument_cp",
        "Titreobjet_cp",
    }
)
_ARTICLE = frozenset({"ti-art", "title-article-norm", "Titrearticle"})
_ARTICLE_HEADING = frozenset({"sti-art", "stitle-article-norm", "Titrearticle"})
_DIVISION = frozenset({"ti-section-1", "title-division-1", "SectionTitle", "ChapterTitle"})
_DIVISION_HEADING = frozenset({"ti-section-2", "title-division-2", "SectionTitle", "ChapterTitle"})
_ANNEX = frozenset({"doc-ti", "title-annex-1", "Annexetitre"})
_ANNEX_HEADING = frozenset({"doc-ti", "title-annex-2", "Annexetitre"})
_STATEMENT = frozenset({"Exposdesmotifstitre", "Fichefinanciretitre"})
_NOTE = frozenset({"note", "footnote"})
_GROUP = re.compile(r"(?:ti-grseq|title-gr-seq-level)-(\d)")

_RANKS = {
    "preamble": 1, "annex": 1, "statement": 1, "final": 1, "notes": 1,
    "recital": 2, "part": 2, "title": 3, "chapter": 4, "section": 5, "subsection": 6, "article": 7,
    "annex part": 10,
}  # fmt: skip
_QUOTES = "‘“„«\"'"
_RECITAL = re.compile(r"\((\d{1,3})\)\s")
_HEADING_LENGTH = 250
_NUMBERED = re.compile(r"(?:[IVX]+|\d+|[A-Z])[.)]?\s|\(\w{1,3}\)")
_NO_HEADING = re.compile(r"(?:\(?\w{1,3}[).]|[-—–•])\s|" + f"[{_QUOTES}(]")


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
class _Start:
    kind: str
    number: str | None = None
    heading: str = ""
    rank: int = 0


@dataclass
class _Builder:
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

    def begin(self, start: _Start, line: str) -> None:
        rank = start.rank or _RANKS[start.kind]
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
            if _is_bare(self.structure[-1], section)
            else f"{section['heading']} {line}"
        )
        self.add(line)

    @property
    def kind(self) -> str | None:
        """Of the innermost open section."""
        return self.structure[self.open[-1][1]]["kind"] if self.open else None


def _is_bare(entry: dict[str, Any], section: dict[str, Any]) -> bool:
    return " – " not in section["heading"] and entry["kind"] != "statement"


def assemble(lines: list[Line]) -> Act:
    """Put lines together to a text with sections.

    An act whose markup names its articles is believed; in the older plain markup, and in consolidated texts
    without class names, the words that begin a line decide. What an amending act quotes stays text.
    """
    marked = any(line.classes & _ARTICLE for line in lines)
    reader = _Reader(marked or any(line.classes & _TITLE for line in lines), marked)
    for number, line in enumerate(lines):
        reader.take(line, lines[number + 1] if number + 1 < len(lines) else None)
    return reader.act()


class _Reader:
    """Reads line by line: what is the next line, given where in the act it stands?"""

    def __init__(self, classed: bool, marked: bool) -> None:
        self.classed = classed  # the title has a class of its own
        self.marked = marked  # articles have
        self.build = _Builder()
        self.area = "front"  # front, preamble, enacting, annex, final
        self.titles: list[str] = []
        self.heading = ""  # kind whose heading may follow
        self.recital = 0
        self.eli = ""
        self.quoting = False
        self.group = 0  # level of the annex part that was begun last
        self.removed = False  # something was taken out since the last article
        self.articles: list[str] = []
        self.deleted: list[str] = []

    def act(self) -> Act:
        """Return what was read."""
        self.build.close(0)
        remarks = {"deleted_articles": self.deleted} if self.deleted else {}
        return Act(
            "".join(self.build.parts),
            " ".join(self.titles),
            "marked" if self.marked else "plain",
            tuple(self.build.sections),
            tuple(self.build.structure),
            remarks,
        )

    def take(self, line: Line, following: Line | None) -> None:
        """Take the next line; ``following`` is the one after it."""
        if line.deleted:
            self.removed = True
            return
        if self.area == "front" and self._front(line):
            return
        if self._heads(line, following):
            return
        start = self._start(line)
        if start:
            self._begin(start, line)
        else:
            self.heading = ""
            self.build.add(line.text)
        self._quote(line.text)

    # -------------------------------------------------------------------------------------- title

    def _front(self, line: Line) -> bool:
        """Take the act's title; the first line that is none begins the preamble, or what follows."""
        is_title = bool(line.classes & _TITLE) if self.classed else not words.begins_preamble(line.text)
        if self.classed and not is_title and (not self.titles or line.text.startswith("{")):
            self.build.add(line.text)  # such as a proposal's cover, and its cross-references
            return True
        if is_title and not self._breaks_title(line):
            self.titles.append(line.text)
            self.build.add(line.text)
            return True
        self.area = "preamble"
        if self._article(line) or self._division(line):
            self.area = "enacting"
            return False
        self.build.begin(_Start("preamble", None, words.name("preamble", self._language(line))), line.text)
        return True

    def _breaks_title(self, line: Line) -> bool:
        plain_start = not self.classed and (self._article(line) or self._division(line))
        return bool(plain_start) or bool(self.titles and words.annex(line.text) and self.classed)

    def _language(self, line: Line) -> str:
        return words.language_of(" ".join([*self.titles[:3], line.text]))

    # -------------------------------------------------------------------------------------- headings

    def _heads(self, line: Line, following: Line | None) -> bool:
        """Take a line as the heading of the section that has just begun."""
        kind, self.heading = self.heading, ""
        if not kind or line.depth or (line.text[0] in _QUOTES and kind != "annex"):
            return False
        if not self._is_heading(kind, line, following):
            return False
        self.build.head(line.text)
        self.heading = kind if kind == "annex part" or (kind == "annex" and line.classes & _ANNEX) else ""
        return True

    def _is_heading(self, kind: str, line: Line, following: Line | None) -> bool:
        if words.is_structure(line.text):
            return False
        if self.marked and kind == "article":
            return bool(line.classes & _ARTICLE_HEADING)
        if self.marked and kind == "division":
            return bool(line.classes & _DIVISION_HEADING)
        if kind == "annex part":
            return _group(line) == self.group and not _NUMBERED.match(line.text)
        if self.classed and kind == "annex":
            return bool(line.classes & _ANNEX_HEADING) or bool(_group(line))
        return self._is_plain_heading(line.text, following)

    def _is_plain_heading(self, text: str, following: Line | None) -> bool:
        if following is None or len(text) > _HEADING_LENGTH or text[-1] in ".:;," or _NO_HEADING.match(text):
            return False
        return not (text[0].islower() and self.build.structure[-1]["kind"] == "article")

    # -------------------------------------------------------------------------------------- starts

    def _start(self, line: Line) -> _Start | None:
        for read in (
            self._statement,
            self._notes,
            self._final,
            self._recital,
            self._annex,
            self._group,
            self._division,
            self._article,
        ):
            start = read(line)
            if start:
                return start
        return None

    def _begin(self, start: _Start, line: Line) -> None:
        kind = start.kind
        if kind == "article":
            self._count(start.number)
        if kind in ("annex", "final") or (kind == "statement" and self.articles):
            self.area = "final" if kind == "final" else "annex"
        if kind in ("article", *words.DIVISIONS) and self.area in ("front", "preamble"):
            self.area = "enacting"
            self.build.close(0)
        self.heading = (
            "division"
            if kind in words.DIVISIONS
            else kind
            if kind in ("article", "annex", "annex part")
            else ""
        )
        if start.heading != line.text:
            self.heading = ""  # it stands in the same line
        self.build.begin(start, line.text)

    def _count(self, number: str | None) -> None:
        """Note the numbers that are missing where the text says that something was taken out."""
        if self.area != "annex" and number:
            last = words.leading(self.articles[-1]) if self.articles else 0
            if self.removed and words.leading(number) > last + 1:
                self.deleted.extend(str(gone) for gone in range(last + 1, words.leading(number)))
            self.articles.append(number)
        self.removed = False

    def _statement(self, line: Line) -> _Start | None:
        """A proposal has a memorandum before its preamble, and a financial statement after its end."""
        if line.classes & _STATEMENT:
            return _Start("statement", None, line.text)
        if self.area == "preamble" and self.build.kind == "statement" and words.begins_preamble(line.text):
            return _Start("preamble", None, words.name("preamble", self._language(line)))
        return None

    def _notes(self, line: Line) -> _Start | None:
        classed = bool(line.classes & _NOTE) and not line.depth
        plain = not self.marked and self.area in ("final", "annex") and words.is_note(line.text)
        if not (classed or plain) or self.build.kind == "notes":
            return None
        if plain and not classed and self.area == "annex" and self.build.kind != "final":
            return None
        return _Start(
            "notes",
            None,
            words.name("notes", self._language(line)),
            1 if self.area != "annex" or "footnote" in line.classes else 8,
        )

    def _final(self, line: Line) -> _Start | None:
        if self.area != "enacting" or line.depth:
            return None
        if (
            line.eli.startswith("fnp")
            or line.classes & {"final", "signatory", "Fait"}
            or words.is_final(line.text)
        ):
            return _Start("final", None, words.name("final", self._language(line)))
        return None

    def _recital(self, line: Line) -> _Start | None:
        if self.area != "preamble":
            return None
        if line.eli.startswith("rct"):
            if line.eli == self.eli:
                return None
            self.eli = line.eli
            number = _RECITAL.match(line.text)
            return self._numbered_recital(number[1] if number else line.eli.partition("_")[2])
        number = _RECITAL.match(line.text)
        if number and int(number[1]) == self.recital + 1 and line.depth <= 1:
            return self._numbered_recital(number[1])
        return None

    def _numbered_recital(self, number: str) -> _Start:
        self.recital = int(number) if number.isdigit() else self.recital + 1
        return _Start("recital", number, f"{words.name('recital', self._language(Line('')))} {number}")

    def _annex(self, line: Line) -> _Start | None:
        if line.depth or self.quoting or line.text[0] in _QUOTES or self.area in ("front", "preamble"):
            return None
        found = words.annex(line.text)
        if self.classed:
            if not line.classes & _ANNEX:
                return None
            is_annex = bool(found) or line.eli.startswith("anx")
            if not is_annex and "doc-ti" not in line.classes:
                return None
            return _Start("annex" if is_annex else "statement", found[0] if found else None, line.text)
        if found and self.articles:
            number, rest = found
            label = line.text[: -len(rest)].strip() if rest else line.text
            return _Start("annex", number, f"{label} – {rest}" if rest else line.text)
        return None

    def _group(self, line: Line) -> _Start | None:
        level = _group(line)
        if not level or line.depth or self.area != "annex":
            return None
        self.group = level
        return _Start("annex part", None, line.text, _RANKS["annex part"] + level)

    def _division(self, line: Line) -> _Start | None:
        if line.depth or self.quoting or line.text[0] in _QUOTES:
            return None
        if self.marked and not line.classes & _DIVISION:
            return None
        found = words.division(line.text)
        if found:
            kind, number, rest = found
            label = line.text[: -len(rest)].rstrip(" -–—:") if rest else line.text
            return _Start(kind, number, f"{label} – {rest}" if rest else line.text)
        return (
            _Start("chapter", None, line.text) if self.marked and "SectionTitle" not in line.classes else None
        )

    def _article(self, line: Line) -> _Start | None:
        if line.depth or self.quoting or line.text[0] in _QUOTES:
            return None
        if self.marked:
            if not line.classes & _ARTICLE:
                return None
            return _Start("article", words.marked_number(line.text), line.text)
        number = words.article(line.text)
        return _Start("article", number, line.text) if number else None

    # -------------------------------------------------------------------------------------- quotations

    def _quote(self, text: str) -> None:
        """Note where a quoted heading opens a quotation, and where it ends."""
        if text[0] in _QUOTES and words.is_structure(text[1:].lstrip()):
            self.quoting = True
        if self.quoting and re.search(r"[’”“»\"'][\s.;,]*$", text):
            self.quoting = False


def _group(line: Line) -> int:
    for name in line.classes:
        found = _GROUP.fullmatch(name)
        if found:
            return int(found[1])
    return 0
