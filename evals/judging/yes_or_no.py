"""Reads yes and no: from how likely an answer is to begin with either, or from its words."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from rag_assay.evals.word_lists import entries
from rag_assay.warehouse.inference.first_token import FirstTokens

_SPACES = str.maketrans("ĠĊ▁", "   ")  # as vocabularies write them
_EDGES = re.compile(r"^[\W\d_]+|[\W\d_]+$")
_WORD = re.compile(r"[^\W\d_]+")


class Chances(NamedTuple):
    """How likely an answer is to begin with yes, and with no."""

    yes: float
    no: float

    @property
    def share(self) -> float:
        """Of all first tokens, those that are either."""
        return self.yes + self.no

    @property
    def value(self) -> float:
        """The chance of yes where it is one of both: P(yes) / (P(yes) + P(no))."""
        return self.yes / self.share


def chances(tokens: FirstTokens) -> Chances:
    """Add up the probabilities of all tokens that begin a yes or a no: any case, with a space, ja and nein.

    A side of which no token is listed counts as 0: it is less likely than the last token of the list.

    >>> found = chances(((" Yes", math.log(0.5)), ("No", math.log(0.2)), ("yes", math.log(0.1)), ("A", -2.0)))
    >>> round(found.yes, 9), round(found.no, 9), round(found.value, 9)
    (0.6, 0.2, 0.75)
    """
    read = [(_side(token), math.exp(chance)) for token, chance in tokens]
    yes, no = (sum((chance for side, chance in read if side is wanted), 0.0) for wanted in (True, False))
    return Chances(yes, no)


def word_of(text: str) -> bool | None:
    """Return whether a text says yes or no; None where it does not begin with either, or has both.

    >>> word_of("**Yes**, they do."), word_of("nein"), word_of("Yes and no."), word_of("I would say yes.")
    (True, False, None, None)
    """
    words = [word.casefold() for word in _WORD.findall(unicodedata.normalize("NFKC", text))]
    sides = {side for side in (True, False) if not _words(is_yes=side).isdisjoint(words)}
    if len(sides) != 1 or words[0] not in _words(is_yes=True) | _words(is_yes=False):
        return None
    return sides.pop()


def _side(token: str) -> bool | None:
    """Return whether a token is a yes, a no, or the beginning of one; None: neither."""
    plain = _EDGES.sub("", unicodedata.normalize("NFKC", token).translate(_SPACES)).casefold()
    for is_yes in (True, False):
        if plain in _beginnings(is_yes=is_yes):
            return is_yes
    return None


@cache
def _words(*, is_yes: bool) -> frozenset[str]:
    return frozenset(entries("judging", "yes" if is_yes else "no"))


@cache
def _beginnings(*, is_yes: bool) -> frozenset[str]:
    return frozenset(_prefixes(_words(is_yes=is_yes)))


def _prefixes(words: Iterable[str]) -> Iterable[str]:
    """Yield what a vocabulary may cut a word to: `Ye`, where it has no `Yes`."""
    for word in words:
        for end in range(1, len(word) + 1):
            yield word[:end]
