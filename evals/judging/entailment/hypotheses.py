"""Splits a text into hypotheses: sentences, none too long and none too short, and lists with their lead."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, NamedTuple, Self

from pydantic import Field, model_validator

from rag_assay.assets.chunking.sentence_splitter import sentence_places
from rag_assay.evals.generation.citations import without_markers
from rag_assay.warehouse.recipe import Strict

_ITEM = re.compile(r"\s*(?:[-–•*·+]|\(?\d{1,3}[.)]|\(?[a-zA-Z]\))\s+\S")
_OF_A_RULE = frozenset("|:+- \t")  # which stands between the head of a table and its rows
_HEADING = re.compile(r"\s*#{1,6} ")
_ENDED = re.compile(r"[.!?…][\"'”’»)\]*_]*$")


class ListBlock(NamedTuple):
    """A list or table."""

    lead: tuple[str, ...]
    items: tuple[str, ...]


def blocks(text: str) -> Iterator[str | ListBlock]:
    r"""Yield prose, and lists or tables of two lines or more with the sentence that introduces them.

    >>> list(blocks("It sails. Fares are:\n\n- adult 5\n- child 2\n\nPay in cash."))
    ['It sails.', ListBlock(lead=('Fares are:',), items=('- adult 5', '- child 2')), 'Pay in cash.']
    """
    lines = text.split("\n")
    prose: list[str] = []
    at = 0
    while at < len(lines):
        found = _table(lines, at) or _list(lines, at, prose)
        if found is None:
            prose.append(lines[at])
            at += 1
            continue
        listed, at = found
        before, introduction = _parted(prose)
        if before.strip():
            yield before
        lead = tuple(one for one in (introduction, *listed.lead) if one)
        yield ListBlock(lead, listed.items)
        prose = []
    if rest := "\n".join(prose).strip():
        yield rest


def _list(lines: Sequence[str], at: int, prose: Sequence[str]) -> tuple[ListBlock, int] | None:
    if not _ITEM.match(lines[at]):
        return None
    items: list[str] = []
    end = at
    while at < len(lines):
        line = lines[at]
        if _ITEM.match(line):
            items.append(line.strip())
        elif line.strip() and end == at and (line[0].isspace() or line[0].islower()):
            items[-1] += "\n" + line.strip()
        elif line.strip():
            break
        at += 1
        end = at if line.strip() else end
    if len(items) == 1 and not _introduction(prose).rstrip("*_ ").endswith(":"):
        return None
    return ListBlock((), tuple(items)), end


def _table(lines: Sequence[str], at: int) -> tuple[ListBlock, int] | None:
    for sign in "|\t":
        ruled = sign in lines[at] and any(
            "--" in line and _OF_A_RULE.issuperset(line.strip()) for line in lines[at + 1 : at + 2]
        )
        end = at
        while end < len(lines) and _is_row(lines[end], sign, ruled=ruled):
            end += 1
        rows = tuple(line.strip() for line in lines[at:end])
        head = 2 if ruled else 1
        if len(rows) > head:
            return ListBlock(rows[:head], rows[head:]), end
    return None


def _is_row(line: str, sign: str, *, ruled: bool) -> bool:
    return sign in line.strip() and (ruled or sign == "\t" or line.lstrip().startswith(sign))


def _introduction(prose: Sequence[str]) -> str:
    last = next((line for line in reversed(prose) if line.strip()), "")
    is_right_above = bool(prose) and bool(prose[-1].strip())
    if is_right_above or _HEADING.match(last) or not _ENDED.search(last.rstrip()):
        return last.strip()
    return ""


def _parted(prose: Sequence[str]) -> tuple[str, str]:
    text = "\n".join(prose).strip()
    if not _introduction(prose):
        return text, ""
    start, end = sentence_places(text)[-1]
    return text[:start].rstrip(), " ".join(text[start:end].split())


_BLANK_LINE = re.compile(r"\n[^\S\n]*\n")
_LINE = re.compile(r"\n")
_WORD = re.compile(r"\w")


class Splitting(Strict):
    """How a text is split.

    longest: characters of a sentence; a longer one is split at blank lines, what is still longer at lines,
        and what is still longer after so many characters
    shortest: characters of a sentence; a shorter one is joined to the next, the last one to that before
    """

    longest: Annotated[int, Field(ge=40, le=5_000)] = 500
    shortest: Annotated[int, Field(ge=0, le=1_000)] = 20

    @model_validator(mode="after")
    def _has_room(self) -> Self:
        if self.shortest > self.longest:
            raise ValueError("`shortest` is more than `longest`")
        return self

    def hypotheses(self, text: str) -> list[str]:
        pieces: list[str] = []
        for block in blocks(without_markers(text)):
            pieces += self._listed(block) if isinstance(block, ListBlock) else self._sentences(block)
        return _joined(pieces, self.shortest)

    def _sentences(self, prose: str) -> Iterator[str]:
        for start, end in sentence_places(prose):
            for piece in _cut(prose[start:end], self.longest):
                yield " ".join(piece.split())

    def _listed(self, listed: ListBlock) -> Iterator[str]:
        whole = "\n".join([*listed.lead, *listed.items])
        if len(whole) <= self.longest:
            yield whole
            return
        lead = "\n".join(listed.lead)
        if len(lead) > self.longest // 2:  # it would leave no room for what it introduces
            yield from _cut(lead, self.longest)
            lead = ""
        room = self.longest - len(lead) - 1
        piece = ""
        for item in listed.items:
            for part in _cut(item, room):
                if piece and len(piece) + 1 + len(part) > room:
                    yield f"{lead}\n{piece}".strip()
                    piece = ""
                piece = f"{piece}\n{part}" if piece else part
        yield f"{lead}\n{piece}".strip()


def _cut(text: str, longest: int) -> list[str]:
    pieces = [text]
    for split in (_BLANK_LINE.split, _LINE.split, re.compile(rf"(?s)(.{{{longest}}})").split):
        parted = [split(piece) if len(piece) > longest else [piece] for piece in pieces]
        pieces = [part for parts in parted for part in parts if part.strip()]
    return pieces


def _joined(pieces: list[str], shortest: int) -> list[str]:
    """Join each piece that is too short to the next one, or at the end to the one before.

    >>> _joined(["Yes.", "It is.", "It sails at noon on Mondays.", "Bye."], 20)
    ['Yes. It is. It sails at noon on Mondays. Bye.']
    """
    found: list[str] = []
    held = ""
    for piece in pieces:
        held = _together(held, piece) if held else piece
        if len(held) >= shortest and _WORD.search(held):
            found.append(held)
            held = ""
    if held and found:
        found[-1] = _together(found[-1], held)
    elif held and _WORD.search(held):
        found.append(held)
    return found


def _together(one: str, other: str) -> str:
    return f"{one}\n{other}" if "\n" in one + other else f"{one} {other}"


Count = Callable[[Sequence[str]], list[int]]
"""Texts -> how many tokens each has, special tokens not counted."""


def windows(lead: str, texts: Sequence[str], room: int, count: Count) -> list[str]:
    """Return texts in as few windows as have room, each of which repeats the last text of the one before.

    >>> words = lambda texts: [len(text.split()) for text in texts]
    >>> windows("q", ["a b c", "d e", "f g", "h"], 5, words)
    ['q a b c', 'q d e f g', 'q f g h']
    """
    [of_lead, *tokens] = count([lead, *texts])
    if of_lead > room // 2:
        lead, of_lead = "", 0
    room -= of_lead
    units = [
        unit
        for text, n in zip(texts, tokens, strict=True)
        for unit in ([(text, n)] if n <= room else _cut_to_fit(text, room, count))
    ]
    found, first = [], 0
    while first < len(units):
        end = _end(units, first, room)
        found.append(" ".join([lead, *(text for text, _ in units[first:end])]).strip())
        if end == len(units):
            break
        # The last one again, unless the next window would then be no longer than that.
        first = end - 1 if end - 1 > first and _end(units, end - 1, room) > end else end
    return found


def _end(units: Sequence[tuple[str, int]], first: int, room: int) -> int:
    end, total = first + 1, units[first][1]
    while end < len(units) and total + units[end][1] <= room:
        total += units[end][1]
        end += 1
    return end


def _cut_to_fit(text: str, room: int, count: Count) -> Iterator[tuple[str, int]]:
    longest = max(1, room // 4)
    words = [
        word[at : at + longest] if len(word) > longest else word
        for word in text.split()
        for at in range(0, len(word), longest if len(word) > longest else len(word))
    ]
    units = list(zip(words, count(words), strict=True))
    first = 0
    while first < len(units):
        end = _end(units, first, room)
        yield " ".join(word for word, _ in units[first:end]), sum(n for _, n in units[first:end])
        first = end
