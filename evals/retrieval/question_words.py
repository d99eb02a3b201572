"""The words of questions: content words, stop words, names, and the language."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from operator import attrgetter
from typing import Literal, NamedTuple

from rag_assay.evals.word_lists import question_stop_words

Language = Literal["en", "de"]
MAX_READ = 4_000  # characters of a question that transforms look at: longer ones are pasted documents

_WORD = re.compile(r"\w+(?:[-/&.’']\w+)*")
_UMLAUTS = {"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss"}


class Word(NamedTuple):
    """A word of a text and where it stands."""

    text: str
    start: int
    end: int


@cache
def stop_words(language: Language | None = None) -> frozenset[str]:
    """Return the words that say nothing of what a question is about; None: those of both languages."""
    if language is None:
        return question_stop_words("english") | question_stop_words("german")
    return question_stop_words("english" if language == "en" else "german")


def words(text: str) -> list[Word]:
    """Return the words of a text; hyphens, slashes and points inside hold a word together.

    >>> [word.text for word in words("Saison 2021/22: Rot-Weiß, 3.5 MW?")]
    ['Saison', '2021/22', 'Rot-Weiß', '3.5', 'MW']
    """
    return [Word(found.group(), found.start(), found.end()) for found in _WORD.finditer(text)]


def language(text: str) -> Language:
    """Return the language of a text, German or English, by its stop words; English where nothing tells."""
    plain = [word.text.casefold() for word in words(text)]
    german = sum(word in stop_words("de") for word in plain) + 2 * any(c in "äöüß" for c in text.casefold())
    return "de" if german > sum(word in stop_words("en") for word in plain) else "en"


def content_forms(text: str) -> frozenset[str]:
    return frozenset(word.text.casefold() for word in content(text))


def content(text: str, *, once: bool = True) -> list[Word]:
    """Return the words that are no stop words of the text's language, in their order."""
    stop = stop_words(language(text))
    found: dict[str, list[Word]] = {}
    for word in words(text):
        plain = word.text.casefold()
        if plain not in stop and any(c.isalnum() for c in plain):
            found.setdefault(plain, []).append(word)
    return sorted(
        (word for same in found.values() for word in (same[:1] if once else same)), key=attrgetter("start")
    )


def fold_text(text: str) -> tuple[str, list[int]]:
    r"""Return a text without case, umlauts written out, other accents dropped; and each letter's old place.

    Both spellings of a German name meet in it, and other white space and dashes become plain ones.

    >>> fold_text("Müßig – é")[0]
    'muessig - e'
    >>> fold_text("O\u0308l")[0]
    'oel'
    >>> fold_text("Öl")[1]
    [0, 0, 1]
    """
    letters: list[str] = []
    places: list[int] = []
    for place, letter in enumerate(text):
        # An umlaut may come as its letter and a combining diaeresis.
        apart = letter == "\u0308" and text[place - 1 : place].casefold() in {"a", "o", "u"}
        plain = "e" if apart else "".join(_fold(one) for one in letter.casefold())
        letters.append(plain)
        places += [place] * len(plain)
    return "".join(letters), places


def _fold(letter: str) -> str:
    if letter in _UMLAUTS:
        return _UMLAUTS[letter]
    category = unicodedata.category(letter)
    if category in {"Zs", "Cc"}:
        return " "
    if category == "Pd":
        return "-"
    return "".join(c for c in unicodedata.normalize("NFKD", letter) if not unicodedata.combining(c))


_PART = r"[A-ZÄÖÜ0-9](?:[\w’'/&.-]|:(?=\d))*"
_NAME = re.compile(rf"{_PART}(?:\s+(?:(?:de|von|van|of)\s+)?{_PART})*")


def names(text: str) -> list[str]:
    """Return runs of capitalised words and numbers that are no stop words: what a text is about, roughly.

    In German these are the nouns, in English names; the first word of a sentence counts where it is no
    stop word and no question word.

    >>> names("Wann wurde das Flutlicht im Waldstadion Haldenrath gebaut?")
    ['Flutlicht', 'Waldstadion Haldenrath']
    >>> names("Who runs the Harbour Office of Port Ellen since 1987?")
    ['Harbour Office of Port Ellen', '1987']
    """
    every = stop_words()
    found: dict[str, None] = {}
    for match in _NAME.finditer(text):
        parts = match.group().rstrip(".'’-/&").split()
        while parts and parts[0].casefold() in every:
            parts = parts[1:]
        if parts:
            found.setdefault(" ".join(parts), None)
    return list(found)
