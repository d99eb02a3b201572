"""Sentences that define something, turned around: "X means Y" becomes "What does X mean?"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from rag_assay.assets.chunking.sentence_splitter import word_set
from rag_assay.evals.question_generation.texts import (
    LISTS,
    Language,
    QuestionCandidate,
    SourceText,
    content_words,
    turned_around,
)
from rag_assay.evals.retrieval.question_words import stop_words
from rag_assay.evals.word_lists import entries, groups

_WORD = r"[\w(](?:[\w’'/&.()-]*[\w)])?"
_TERM = (
    rf"(?P<open>[„“\"‘'«]?)(?P<term>[^\W\d_](?:[\w’'/&.()-]*[\w)])?(?: {_WORD}){{0,6}}?)(?P<close>[”“\"’'»]?)"
)
_LEAD = r"^(?:[-–•*·]\s+|\(?\w{1,3}\)\s+)?"
_ARTICLES = re.compile(r"(?:an?|the|ein|eine[mnrs]?|de[mnrs]|die|das)\s+(?=\S)", re.I)
_GERUND = re.compile(r"[A-Z][a-z]+ing ")
# A single word at the beginning of a sentence: OpenFEC, USWDS, e-mail
_COINED = re.compile(r"\w[A-Z\d]|[-.]\w")
_JOINING = word_set("of for and in von für und der des die zur zum")


class _Rule(NamedTuple):
    pattern: re.Pattern[str]
    question: str


@cache
def _rules(language: Language) -> tuple[_Rule, ...]:
    lists = LISTS[language]
    found = [
        _Rule(re.compile(rf"{_LEAD}{_TERM},? {definer} (?=\S+ \S+)"), question)
        for definer, question in groups("making", lists)["definers"]
    ]
    under = groups("making", lists).get("under")
    if under:
        found.append(_Rule(re.compile(rf"^{under[0]}", re.I), under[1]))
    return tuple(found)


@cache
def _light(language: Language) -> frozenset[str]:
    return frozenset(entries("making", "light", LISTS[language]))


def definitions_of(text: SourceText) -> Iterator[QuestionCandidate]:
    return turned_around(text, "definition", question_of)


def question_of(sentence: str, language: Language) -> str | None:
    """Return what a sentence defines, as a question; None where it defines nothing.

    >>> question_of("A fairway is the deep channel in the middle of a harbour.", "en")
    'What is a fairway?'
    >>> question_of("‘Seasonal efficiency’ means the ratio of heat to electricity over a year.", "en")
    'What does ‘Seasonal efficiency’ mean?'
    >>> question_of("Unter einer Schleuse versteht man ein Bauwerk zwischen zwei Wasserständen.", "de")
    'Was versteht man unter einer Schleuse?'
    >>> question_of("The reason is the storm of last week.", "en") is None
    True
    """
    for rule in _rules(language):
        found = rule.pattern.match(sentence)
        if found is None:
            continue
        term = found["term"]
        quoted, named = bool(found.groupdict().get("open")), "open" not in found.groupdict()
        if quoted != bool(found.groupdict().get("close")) or not is_term(
            term, language, sure=quoted or named
        ):
            return None
        return rule.question.format(term=f"‘{term}’" if quoted else _inside(term))
    return None


def is_term(term: str, language: Language, *, sure: bool = False) -> bool:
    """Return whether words at the beginning of a sentence name a thing that the sentence may define.

    >>> [is_term(term, "en") for term in ("Today", "The answer", "Harbour dues", "The Harbour Office")]
    [False, False, True, True]
    """
    article = _ARTICLES.match(term)
    bare = term[article.end() :] if article else term
    parts = bare.split()
    said = content_words(bare)
    if not said or len(parts) > 6:
        return False
    if sure:
        return True
    stop = stop_words(language)
    if any(part.casefold() in stop and part.casefold() not in _JOINING for part in parts):
        return False
    if (
        parts[0].casefold() in stop
        or parts[-1].casefold() in stop
        or any(w in _light(language) for w in said)
    ):
        return False
    if _GERUND.match(bare) or not (len(parts) > 1 or article or _COINED.search(bare)):
        return False
    definite = article is not None and article.group().strip().casefold() in {"the", "der", "die", "das"}
    named = any(part[0].isupper() for part in parts) if language == "en" else len(parts) > 1 or "-" in bare
    return named if definite else True


def _inside(term: str) -> str:
    """Return a term as it stands within a sentence: its article in small letters.

    >>> _inside("The Harbour Office"), _inside("Berths")
    ('the Harbour Office', 'Berths')
    """
    article = _ARTICLES.match(term)
    return term[0].lower() + term[1:] if article else term
