"""Rules that tell whether a German or English question depends on the conversation before it.

It does where it opens as a continuation, asks for more of the same, is too short, or holds a word (pronoun,
"dort", "these") that stands for nothing named before it. A pronoun is looked up in earlier clauses, not in
its own ("what does the coach earn with him?"), unless it is possessive.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from rag_assay.evals.retrieval.question_words import content, language, names, stop_words, words
from rag_assay.evals.word_lists import Language, alternation, entries

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


def _cue(pattern: str, group: str, *languages: Language, flags: int = re.IGNORECASE) -> re.Pattern[str]:
    return re.compile(pattern.format(alternation("follow_ups", group, *languages)), flags)


OPENERS = _cue(r"^\W*(?:{})\b(?!-)", "openers")
ASKS = _cue(r"\W*(?:{})\b", "asking")
_HOW_IT_IS = re.compile(r"\W*wie (?:ist|steht|sieht) es\b", re.IGNORECASE)
_MORE = _cue(r"\b(?:{})\b", "more")
_POINTING = {
    "en": _cue(r"\b(?:{})\b", "pointing", "english"),
    "de": _cue(r"\b(?:{})\b", "pointing", "german", flags=0),
}
_EMPTY = _cue(r"\b(?:{})\b", "empty")
_CLAUSE = _cue(r"[,;:?!–]|\b(?:{})\b", "clauses")
_DETERMINED, _SOME = _cue(r"\b(?:the|{})\s+\w+", "indefinite"), _cue(r"\b(?:{})\s+\w+", "indefinite")
_DEFINED = re.compile(r"^\W*(?:what|who)\s+(?:is|are|was|were)\s+", re.IGNORECASE)
_OWNED = {"its", "his", "her", "their", "dessen", "deren", "sein", "ihr"} | {
    f"{one}e{end}" for one in ("sein", "ihr") for end in ("", *"nmrs")
}
SHORT = 4  # words: a shorter question without a name of its own says too little to stand alone


def depends(text: str) -> bool:
    """Return whether a question leans on what was said before.

    >>> depends("Und wie hoch ist es?"), depends("Wie hoch ist der Turm, und wem gehört er?")
    (True, False)
    >>> depends("Wer hat das beschlossen?"), depends("Is there a limit on this year's catch?")
    (True, False)
    """
    opener = OPENERS.match(text)
    if _MORE.search(text) or (opener and not _asks_by_itself(opener.group(), text)):
        return True
    if any(not _is_resolved(text, found) for found in _pointing(text)):
        return True
    return _says_too_little(text)


def _asks_by_itself(opener: str, text: str) -> bool:
    return _HOW_IT_IS.match(opener) is not None and len(names(text[len(opener) :])) >= 2


def _pointing(text: str) -> Iterator[re.Match[str]]:
    blank = _EMPTY.sub(lambda match: " " * len(match.group()), text)
    return _POINTING[language(text)].finditer(blank)


def _is_resolved(text: str, found: re.Match[str]) -> bool:
    before, word = text[: found.start()], found.group().casefold()
    if word in _OWNED:
        # "its stocks that a country may keep": the owner may come later.
        cataphoric = word not in {"his", "her"} and _SOME.search(text[found.end() :]) is not None
        return cataphoric or _names_something(before, word)
    ends = [match.start() for match in _CLAUSE.finditer(before)]
    return bool(ends) and _names_something(before[: ends[-1]], word)


def _names_something(clause: str, word: str) -> bool:
    if names(clause) or _DETERMINED.search(clause):
        return True
    # Plurals need no article: "did firms say whether they …".
    return word in {"they", "them", "their"} and len(content(clause)) >= 2


def _says_too_little(text: str) -> bool:
    found = words(text)
    # Without the capital of its beginning: "Against whom?" has no name.
    if len(found) >= SHORT or names(text[:1].lower() + text[1:]):
        return False
    every = stop_words()
    bare = [word.text for word in found if word.text.casefold() not in every]
    if len(bare) == len(found) > 0:
        return False
    return not (bare and _DEFINED.match(text))  # "what is inflation?"
