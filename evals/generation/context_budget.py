"""How much of a ranking a generator reads: so many passages, or so many tokens of context."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from types import NoneType
from typing import Annotated, Any, ClassVar, Protocol, TypeVar

from pydantic import Field, model_validator

from rag_assay.evals.metrics.token_budget import CHARACTERS_A_TOKEN
from rag_assay.warehouse.components import Component

BYTES_PER_TOKEN = 8  # of UTF-8, at most

Count = Callable[[Sequence[str]], list[int]]
"""Texts -> the tokens of each."""


def bound_count(count: Count) -> Count:
    """Return a count by which a string that the tokenizer takes for one unknown word is long all the same.

    >>> def words(texts):
    ...     return [len(text.split()) for text in texts]
    >>> bound_count(words)(["It leaves at noon.", "x" * 800])
    [4, 100]
    """

    def sizes(texts: Sequence[str]) -> list[int]:
        lengths = [len(text.encode(errors="replace")) // BYTES_PER_TOKEN for text in texts]
        return [max(pair) for pair in zip(count(texts), lengths, strict=True)]

    return sizes


MOST_PASSAGES = 100
WORTH = 80  # characters: a shorter beginning of a passage is left out
_AFTER = 200  # characters after the budget that may say where a sentence ends

Tokens = Annotated[int, Field(ge=64, le=1_000_000)]


class ContextBudget(Component):
    """What a generator reads of a ranking, from the first passage on.

    With both bounds, whichever is reached first holds. A token is four characters, as in
    `evidence_coverage@2000tokens`, so that pipelines with equal budgets read equally much.

    passages: how many chunks of the ranking it reads; default with `context_tokens`: as many as fit
    context_tokens: budget of context in tokens of four characters; the last passage is cut there, at the end
        of a sentence or word; default: none
    """

    passages: Annotated[int, Field(ge=1, le=MOST_PASSAGES)] = 5
    context_tokens: Annotated[Tokens | None, Field(exclude_if=lambda tokens: tokens is None)] = None

    @model_validator(mode="before")
    @classmethod
    def _budget_takes_the_place_of_a_number(cls, written: Any) -> Any:
        has_budget = isinstance(written, dict) and written.get("context_tokens") is not None
        if (
            not has_budget
            or "passages" in written
            or cls.model_fields["context_tokens"].annotation is NoneType
        ):
            return written
        return {**written, "passages": MOST_PASSAGES}

    def n_read(self, lengths: Sequence[int]) -> int:
        """Return how many of the first passages (lengths in characters) it reads, the last maybe in part."""
        first = lengths[: self.passages]
        if self.context_tokens is None:
            return len(first)
        whole, room = _fitting(first, self.context_tokens)
        return whole + (room >= WORTH and whole < len(first))


@dataclass(frozen=True)
class Cut:
    """A passage of which only its first ``kept`` characters were given; 0: it was left out."""

    chunk: str
    kept: int


class Cuttable(Protocol):
    """What can be cut: a passage."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def text(self) -> str:
        """What is read of it."""

    @property
    def chunk(self) -> str:
        """Its id."""

    @property
    def start(self) -> int:
        """Where its text begins in the document, in characters."""


P = TypeVar("P", bound=Cuttable)


def within(passages: Sequence[P], tokens: int) -> tuple[tuple[P, ...], Cut | None]:
    """Return the first passages that fit a budget, and where the last one was cut: at the end of a sentence,
    or of a word where that loses half the room; it is left out below WORTH characters.
    """
    whole, room = _fitting([len(one.text) for one in passages], tokens)
    if whole == len(passages) or room < WORTH:
        return tuple(passages[:whole]), None
    last = passages[whole]
    kept = _end_within(last.text, room)
    shortened = replace(last, text=last.text[:kept], end=last.start + kept)
    return (*passages[:whole], shortened), Cut(last.chunk, kept)


def with_cut(cuts: tuple[Cut, ...], cut: Cut | None) -> tuple[Cut, ...]:
    """Add the cut of the budget to those of the window, which may have cut the same passage further."""
    return cuts if cut is None or any(one.chunk == cut.chunk for one in cuts) else (cut, *cuts)


def _fitting(lengths: Iterable[int], tokens: int) -> tuple[int, int]:
    whole, room = 0, tokens * CHARACTERS_A_TOKEN
    for length in lengths:
        if length > room:
            break
        whole, room = whole + 1, room - length
    return whole, room


def sentence_ends(text: str) -> list[int]:
    from rag_assay.assets.chunking.sentence_splitter import sentence_places  # loads what pages do without

    return [end for _, end in sentence_places(text) if end < len(text)]


def word_ends(text: str) -> list[int]:
    return [at for at in range(1, len(text)) if text[at].isspace() and not text[at - 1].isspace()]


def _end_within(text: str, room: int) -> int:
    # Where a sentence or word ends is known by what follows it.
    for ends in (sentence_ends(text[: room + _AFTER]), word_ends(text[: room + 1])):
        fitting = [end for end in ends if max(WORTH, room // 2) <= end <= room]
        if fitting:
            return fitting[-1]
    return room
