"""Tells thanks, greetings and nods, which ask nothing, from questions."""

from __future__ import annotations

from functools import cache

from evals.retrieving.question_words import stop_words, words
from evals.word_lists import entries

MOST = 12  # words: a longer message says something


def is_courtesy(text: str) -> bool:
    """Return whether a message thanks, greets or nods, and asks nothing.

    >>> is_courtesy("Vielen Dank, das hilft mir sehr."), is_courtesy("hi"), is_courtesy("great, thank you!")
    (True, True, True)
    >>> is_courtesy("Danke, und wer war das?"), is_courtesy("Guten Tag, Spielplan Kohlenbach")
    (False, False)
    """
    if "?" in text[:1_000]:
        return False
    found = [word.text.casefold() for word in words(text[:1_000])]
    core, beside = _lists()
    return 0 < len(found) <= MOST and any(word in core for word in found) and set(found) <= beside


@cache
def _lists() -> tuple[frozenset[str], frozenset[str]]:
    """Return the words of which one must be there, and all that may be."""
    core = frozenset(entries("courtesies", "core"))
    return core, core | frozenset(entries("courtesies", "beside")) | stop_words()
