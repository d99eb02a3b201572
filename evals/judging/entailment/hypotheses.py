"""Splits a text into hypotheses: sentences, none too long and none too short, and lists with their lead."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Self

from pydantic import Field, model_validator

from rag_assay.assets.chunking.sentence_splitter import sentence_places
from rag_assay.evals.generation.citations import without_markers
from rag_assay.evals.judging.entailment.list_blocks import ListBlock, blocks
from rag_assay.warehouse.recipe import Strict

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
        r"""Return the hypotheses of a text, in its order; none where it has no word.

        Markers such as `[2]` are left out. A list or table is one hypothesis with the line that introduces
        it; one that is too long becomes several of whole entries, each of which begins with that line (and
        the head of the table).

        >>> Splitting().hypotheses("Yes. The ferry sails at noon [1]. It calls at:\n- Skye\n- Mull\n\nEnjoy!")
        ['Yes. The ferry sails at noon.', 'It calls at:\n- Skye\n- Mull\nEnjoy!']
        """
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
    """Return a text in pieces that are not too long: at blank lines, then at lines, then anywhere."""
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
