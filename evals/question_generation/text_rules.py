"""What makes a text usable as a question or as evidence, in English and German."""

from __future__ import annotations

import re
from functools import cache

from rag_assay.assets.chunking.sentence_splitter import sentence_places
from rag_assay.evals.question_generation.candidate import Language, normalize
from rag_assay.evals.retrieval.question_words import stop_words, words
from rag_assay.evals.word_lists import Language as Lists
from rag_assay.evals.word_lists import entries

LONGEST = 25  # words of a question
QUOTED = 450  # characters of a section that are quoted, about: whole sentences, and one at least
LEAST, MOST = 40, 1_500  # characters of a quote
LISTS: dict[Language, Lists] = {"en": "english", "de": "german"}

_MARKUP = re.compile(r"[<>{}\[\]|\\`\x00-\x08\x0b-\x1f\x7f\ufffd]|https?://|www\.|\]\(|\$\{")
_ACT = re.compile(
    r"^(?:article|artikel|annex|anhang|section|abschnitt|chapter|kapitel)\s+[\w.]+\s*[–—:-]\s*", re.I
)
_STRESS = re.compile(r"[*_]{1,3}(?=\S)(.+?)(?<=\S)[*_]{1,3}")
_NO_PROSE = re.compile(r"[{<|]|!\[|\[!")
_FILE = re.compile(r"\S+\.\w{2,5}", re.A)


def tidy_text(text: str) -> str:
    """Return a heading, title or link text without its number, its marks of stress and its white space.

    >>> tidy_text("3.2  *Moorings* in  winter"), tidy_text("Article 5 – Fines"), tidy_text("2019 in numbers")
    ('Moorings in winter', 'Fines', '2019 in numbers')
    """
    plain = " ".join(_STRESS.sub(r"\1", text).split()).strip(" #*:")
    plain = _ACT.sub("", plain)
    found = re.match(r"(?:§\s*)?(?:\d{1,2}(?:\.\d{1,2})*[.)]?|[IVX]+[.)]|[A-Za-z][.)])\s+(?=[^\W\d])", plain)
    if found and not re.match(r"\d+\s", found.group()):
        return plain[found.end() :]
    return plain


def flaw(text: str) -> str | None:
    """Return why a text cannot be a question as it stands; None: it can.

    >>> flaw("Where to moor?"), flaw("setup.cfg"), flaw("{{ post.title }}")
    (None, 'the name of a file', 'markup or a URL in it')
    """
    if _MARKUP.search(text):
        return "markup or a URL in it"
    if _FILE.fullmatch(text):
        return "the name of a file"
    if len(words(text)) > LONGEST:
        return f"longer than {LONGEST} words"
    if not content_words(text):
        return "no word that says anything"
    return None


def content_words(text: str) -> list[str]:
    """Return the words of a text but for stop words of both languages, numbers and single letters."""
    every = stop_words()
    plain = (word.text.casefold() for word in words(text))
    return [word for word in plain if word not in every and len(word) > 1 and not word.isdigit()]


@cache
def _generic(language: Language) -> tuple[frozenset[str], re.Pattern[str]]:
    lists = LISTS[language]
    whole = frozenset(map(normalize, entries("making", "generic", lists)))
    return whole, re.compile("|".join(entries("making", "generic_patterns", lists)), re.I)


def is_generic(text: str) -> bool:
    """Return whether a heading, title or link text says nothing of what it stands for, in either language.

    >>> [is_generic(text) for text in ("Introduction", "Article 1", "3. Fazit", "Moorings")]
    [True, True, True, False]
    """
    plain = normalize(tidy_text(text))
    return any(plain in whole or pattern.fullmatch(plain) for whole, pattern in map(_generic, ("en", "de")))


def opening(text: str, start: int, end: int) -> str | None:
    """Return the first sentences of `text[start:end]`, about QUOTED characters; None where it is too little.

    Pictures, tags and tables before the first sentence are passed over.
    """
    begin, until = start, start
    for first, stop in sentence_places(text[start : min(end, start + 3 * MOST)]):
        if until == begin and _NO_PROSE.match(text[start + first : start + stop]):
            begin = until = start + stop
            continue
        if until > begin and start + stop - begin > QUOTED:
            break
        until = start + stop
    quote = text[begin:until].strip()
    return quote if LEAST <= len(quote) <= MOST and len(content_words(quote)) >= 5 else None
