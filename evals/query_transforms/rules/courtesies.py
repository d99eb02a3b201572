"""Tells thanks, greetings and nods, which ask nothing, from questions."""

from __future__ import annotations

from functools import cache

from rag_assay.evals.retrieval.question_words import stop_words, words
from rag_assay.evals.word_lists import Language, entries

MOST = 12  # words: a longer message says something
_REPLIES = {"en": "Ask something about the documents.", "de": "Fragen Sie etwas zu den Dokumenten."}


def is_courtesy(text: str) -> bool:
    """Return whether a message thanks, greets or nods, and asks nothing.

    >>> is_courtesy("Vielen Dank, das hilft mir sehr."), is_courtesy("hi"), is_courtesy("great, thank you!")
    (True, True, True)
    >>> is_courtesy("Danke, und wer war das?"), is_courtesy("Guten Tag, Spielplan Kohlenbach")
    (False, False)
    """
    if "?" in text[:1_000]:
        return False
    found = _words(text)
    core, beside = _lists()
    return 0 < len(found) <= MOST and any(word in core for word in found) and set(found) <= beside


def reply_to_courtesy(text: str, language: str | None = None) -> str:
    """Return the reply to a message without a question, in its language if that can be detected.

    >>> reply_to_courtesy("Danke!", "en"), reply_to_courtesy("thanks", "de")
    ('Fragen Sie etwas zu den Dokumenten.', 'Ask something about the documents.')
    """
    found = set(_words(text))
    english, german = found & _core("english"), found & _core("german")
    if english - german or german - english:
        language = "de" if len(german) > len(english) else "en"
    return _REPLIES.get(language or "", _REPLIES["en"])


def _words(text: str) -> list[str]:
    return [word.text.casefold() for word in words(text[:1_000])]


@cache
def _core(language: Language) -> frozenset[str]:
    return frozenset(entries("courtesies", "core", language))


@cache
def _lists() -> tuple[frozenset[str], frozenset[str]]:
    core = _core("english") | _core("german")
    return core, core | frozenset(entries("courtesies", "beside")) | stop_words()
