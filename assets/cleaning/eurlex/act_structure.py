"""The structure of an act: which line begins a recital, a chapter, an article, an annex."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

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


class _QuotationReader:
    """Finds the lines that begin in a quotation: such a line begins no part of the act itself. Markup decides
    where it has a class for the act's own articles (``marked``); else quotation marks, up to where the act's
    numbering goes on.
    """

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
    """Return by markup whether a line names an article of the act itself; None if it does not say."""
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


RANKS = {
    "preamble": 1, "annex": 1, "statement": 1, "final": 1, "notes": 1,
    "recital": 2, "part": 2, "title": 3, "chapter": 4, "section": 5, "subsection": 6, "article": 7,
    "annex part": 10,
}  # fmt: skip


class Act(NamedTuple):
    """The text of an act with its sections; `title` is what stands above its preamble."""

    text: str
    title: str
    kind: str  # of markup: "marked" by class names, or "plain"
    sections: tuple[dict[str, Any], ...]
    structure: tuple[dict[str, Any], ...]
    remarks: dict[str, Any]


class Start(NamedTuple):
    """What a line begins; `rank` is that of its kind if it has no own one."""

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
        gap = "" if not self.parts else "\n\n" if apart else "\n"
        self.parts.append(gap + text)
        start = self.length + len(gap)
        self.length = start + len(text)
        return start

    def begin(self, start: Start, line: str) -> None:
        rank = start.rank or RANKS[start.kind]
        self.close(rank)
        at = self.add(line, apart=True)
        level = len(self.open) + 1
        self.open.append((rank, len(self.sections)))
        self.sections.append(
            {"heading": start.heading or line, "level": level, "start": at, "end": self.length}
        )
        entry: dict[str, Any] = {"kind": start.kind, "number": start.number}
        around = (self.structure[place] for _, place in self.open[:-1])
        annex = next((one for one in around if one["kind"] in ("annex", "statement")), None)
        self.structure.append(entry if annex is None else {**entry, "annex": annex["number"] or ""})

    def close(self, rank: int) -> None:
        while self.open and self.open[-1][0] >= rank:
            self.sections[self.open.pop()[1]]["end"] = self.length

    def head(self, line: str) -> None:
        section = self.sections[-1]
        section["heading"] += f" – {line}" if is_bare(self.structure[-1], section) else f" {line}"
        self.add(line)

    @property
    def kind(self) -> str | None:
        return self.structure[self.open[-1][1]]["kind"] if self.open else None


def is_bare(entry: dict[str, Any], section: dict[str, Any]) -> bool:
    return " – " not in section["heading"] and entry["kind"] != "statement"


_TITLE = frozenset(
    {"doc-ti", "title-doc-first", "title-doc-last", "Statut"}
    | {"Typedudocument", "Titreobjet", "Typedudocument_cp", "Titreobjet_cp"}
)
_ARTICLE_HEADING = frozenset({"sti-art", "stitle-article-norm", "Titrearticle"})
_DIVISION = frozenset({"ti-section-1", "title-division-1", "SectionTitle", "ChapterTitle"})
_DIVISION_HEADING = frozenset({"ti-section-2", "title-division-2", "SectionTitle", "ChapterTitle"})
_ANNEX = frozenset({"doc-ti", "title-annex-1", "Annexetitre"})
_ANNEX_HEADING = frozenset({"doc-ti", "title-annex-2", "Annexetitre"})
_STATEMENT = frozenset({"Exposdesmotifstitre", "Fichefinanciretitre"})
_NOTE = frozenset({"note", "footnote"})
_GROUP = re.compile(r"(?:ti-grseq|title-gr-seq-level)-(\d)")

# The number of a recital, not that of a footnote.
_RECITAL = re.compile(r"\((\d{1,3})\)\s(?!(?:OJ|JO|ABl|GU|DO|PB|EFT|EGT|Official Journal)\b)")
_HEADING_LENGTH = 250
_NUMBERED = re.compile(r"(?:[IVX]+|\d+(?:\.\d+)*|[B-HJ-Z])[.)]?\s|[A-Z][.)]\s|\(\w{1,3}\)")
_DOTTED = re.compile(r"\d+(?:\.\d+)+")
_NO_HEADING = re.compile(r"(?:\(?\w{1,3}[).]|[-—–•])\s|" + f"[{OPENING}(]")


def assemble(lines: list[ActLine]) -> Act:
    """Put lines together to a text with sections: by markup that names articles, else by a line's words."""
    marked = any(line.classes & ARTICLES for line in lines)
    reader = _Reader(marked or any(line.classes & _TITLE for line in lines), marked)
    announced = set() if marked else _announced(lines)
    for place, (line, following, is_quoted) in enumerate(
        zip(lines, [*lines[1:], None], _QuotationReader(lines, marked).read(), strict=True)
    ):
        reader.quoting = is_quoted or place in announced
        reader.take(line, following)
    return reader.act()


def _announced(lines: list[ActLine]) -> set[int]:
    """Return the lines that only announce an article whose title follows, as on pages of one treaty article.
    Between the two there are only the article's names in other treaties.
    """
    found = set()
    for place, line in enumerate(lines):
        below = lines[place + 1 : place + 6]
        if words.article(line.text) and line in below:
            between = below[: below.index(line)]
            if all(words.begins_with_article(other.text) for other in between):
                found.add(place)
    return found


class _Reader:
    """Reads line by line: what is the next line, given where in the act it stands?"""

    def __init__(self, classed: bool, marked: bool) -> None:
        self.classed = classed  # the title has a class of its own
        self.marked = marked  # articles have
        self.build = Builder()
        self.area = "front"  # front, preamble, enacting, annex, final
        self.titles: list[str] = []
        self.heading = ""  # kind whose heading may follow
        self.recital = 0
        self.eli = ""
        self.quoting = False  # the line begins in a quotation
        self.group = 0  # level of the annex part that was begun last
        self.removed = False  # something was taken out since the last article
        self.articles: list[str] = []
        self.deleted: list[str] = []

    def act(self) -> Act:
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

    def take(self, line: ActLine, following: ActLine | None) -> None:
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

    # -------------------------------------------------------------------------------------- title

    def _front(self, line: ActLine) -> bool:
        is_title = bool(line.classes & _TITLE) if self.classed else not words.begins_preamble(line.text)
        before_title = self.classed and not is_title and not self.titles and not self._article(line)
        if before_title or (self.classed and not is_title and line.text.startswith("{")):
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
        self.build.begin(Start("preamble", None, words.name("preamble", self._language(line))), line.text)
        return True

    def _breaks_title(self, line: ActLine) -> bool:
        plain_start = not self.classed and (self._article(line) or self._division(line))
        return bool(plain_start) or bool(self.titles and words.annex(line.text) and self.classed)

    def _language(self, line: ActLine) -> str:
        return words.language_of(" ".join([*self.titles[:3], line.text]))

    # -------------------------------------------------------------------------------------- headings

    def _heads(self, line: ActLine, following: ActLine | None) -> bool:
        kind, self.heading = self.heading, ""
        if not kind or line.depth or (line.text[0] in OPENING and kind != "annex"):
            return False
        if not self._is_heading(kind, line, following):
            return False
        self.build.head(line.text)
        goes_on = kind == "annex part" or (kind == "annex" and (self.classed or line.classes & _ANNEX))
        self.heading = kind if goes_on else ""
        return True

    def _is_heading(self, kind: str, line: ActLine, following: ActLine | None) -> bool:
        if words.is_structure(line.text):
            return False
        if self.marked and kind == "article":
            return bool(line.classes & _ARTICLE_HEADING)
        if self.marked and kind == "division":
            return bool(line.classes & _DIVISION_HEADING)
        if kind == "annex part":
            return _group(line) == self.group and not _begins_part(line.text)
        if self.classed and kind == "annex":
            return bool(line.classes & _ANNEX_HEADING) or self._is_heading_in_group(line)
        return self._is_plain_heading(line.text, following)

    def _is_heading_in_group(self, line: ActLine) -> bool:
        if not _group(line) or _begins_part(line.text):
            return False
        return is_bare(self.build.structure[-1], self.build.sections[-1]) or line.text[0] == "("

    def _is_plain_heading(self, text: str, following: ActLine | None) -> bool:
        if following is None or len(text) > _HEADING_LENGTH or text[-1] in ".:;," or _NO_HEADING.match(text):
            return False
        if self.build.structure[-1]["kind"] == "annex" and _begins_part(text):
            return False
        return not (text[0].islower() and self.build.structure[-1]["kind"] == "article")

    # -------------------------------------------------------------------------------------- starts

    def _start(self, line: ActLine) -> Start | None:
        readers = (
            self._statement,
            self._notes,
            self._final,
            self._recital,
            self._annex,
            self._group,
            self._division,
            self._article,
        )
        return next((start for read in readers if (start := read(line))), None)

    def _begin(self, start: Start, line: ActLine) -> None:
        kind = start.kind
        if kind == "article":
            if self.area != "annex" and start.number:
                last = words.leading(self.articles[-1]) if self.articles else 0
                if self.removed and words.leading(start.number) > last + 1:
                    self.deleted.extend(str(gone) for gone in range(last + 1, words.leading(start.number)))
                self.articles.append(start.number)
            self.removed = False
        if kind in ("annex", "final") or (kind == "statement" and self.articles):
            self.area = "final" if kind == "final" else "annex"
        if kind in ("article", *words.DIVISIONS) and self.area in ("front", "preamble"):
            self.area = "enacting"
            self.build.close(0)
        self.heading = "division" if kind in words.DIVISIONS else kind
        if kind not in (*words.DIVISIONS, "article", "annex", "annex part") or start.heading != line.text:
            self.heading = ""  # there is none, or it stands in the same line
        self.build.begin(start, line.text)

    def _statement(self, line: ActLine) -> Start | None:
        if line.classes & _STATEMENT:
            return Start("statement", None, line.text)
        if self.area == "preamble" and self.build.kind == "statement" and words.begins_preamble(line.text):
            return Start("preamble", None, words.name("preamble", self._language(line)))
        return None

    def _notes(self, line: ActLine) -> Start | None:
        classed = bool(line.classes & _NOTE) and not line.depth
        plain = not self.marked and self.area in ("final", "annex") and words.is_note(line.text)
        if not (classed or plain) or self.build.kind == "notes":
            return None
        if plain and not classed and self.area == "annex" and self.build.kind != "final":
            return None
        return Start(
            "notes",
            None,
            words.name("notes", self._language(line)),
            1 if self.area != "annex" or "footnote" in line.classes else 8,
        )

    def _final(self, line: ActLine) -> Start | None:
        if self.area != "enacting" or line.depth:
            return None
        if (
            line.eli.startswith("fnp")
            or line.classes & {"final", "signatory", "Fait"}
            or words.is_final(line.text)
        ):
            return Start("final", None, words.name("final", self._language(line)))
        return None

    def _recital(self, line: ActLine) -> Start | None:
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

    def _numbered_recital(self, number: str) -> Start:
        self.recital = int(number) if number.isdigit() else self.recital + 1
        return Start("recital", number, f"{words.name('recital', self._language(ActLine('')))} {number}")

    def _annex(self, line: ActLine) -> Start | None:
        if line.depth or self.quoting or line.text[0] in OPENING or self.area in ("front", "preamble"):
            return None
        found = words.annex(line.text)
        if self.classed:
            if not line.classes & _ANNEX:
                return None
            is_annex = bool(found) or line.eli.startswith("anx")
            if not is_annex and "doc-ti" not in line.classes:
                return None
            return Start("annex" if is_annex else "statement", found[0] if found else None, line.text)
        if found and self.articles:
            number, rest = found
            label = line.text[: -len(rest)].strip() if rest else line.text
            return Start("annex", number, f"{label} – {rest}" if rest else line.text)
        return None

    def _group(self, line: ActLine) -> Start | None:
        level = _group(line)
        if not level or line.depth or self.area != "annex":
            return None
        self.group = level
        deeper = _DOTTED.match(line.text)  # "2.1." lies in "2.", whose class is the same
        rank = RANKS["annex part"] + 10 * level + (deeper[0].count(".") if deeper else 0)
        return Start("annex part", None, line.text, rank)

    def _division(self, line: ActLine) -> Start | None:
        if line.depth or self.quoting or line.text[0] in OPENING:
            return None
        if self.marked and not line.classes & _DIVISION:
            return None
        found = words.division(line.text)
        if found:
            kind, number, rest = found
            label = line.text[: -len(rest)].rstrip(" -–—:") if rest else line.text
            return Start(kind, number, f"{label} – {rest}" if rest else line.text)
        return (
            Start("chapter", None, line.text) if self.marked and "SectionTitle" not in line.classes else None
        )

    def _article(self, line: ActLine) -> Start | None:
        if line.depth or self.quoting or line.text[0] in OPENING:
            return None
        if self.marked:
            if not line.classes & ARTICLES:
                return None
            return Start("article", words.marked_number(line.text), line.text)
        number = words.article(line.text)
        return Start("article", number, line.text) if number else None


def _begins_part(text: str) -> bool:
    return bool(_NUMBERED.match(text)) or words.is_part(text)


def _group(line: ActLine) -> int:
    return next((int(found[1]) for name in line.classes if (found := _GROUP.fullmatch(name))), 0)
