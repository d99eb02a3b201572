"""Sentences that date something, turned around: "On 3 May X was founded" becomes "When was X founded?"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from rag_assay.evals.query_transforms.rules.named_dates import Dated, find_dates
from rag_assay.evals.question_generation.candidate import Language, QuestionCandidate
from rag_assay.evals.question_generation.sentences import turned_around
from rag_assay.evals.question_generation.text_rules import content_words
from rag_assay.evals.question_generation.texts import SourceText
from rag_assay.evals.retrieval.question_words import stop_words
from rag_assay.evals.word_lists import alternation, entries, groups

_EXACT = frozenset({"day", "month", "year"})
_ARTICLES = frozenset({"a", "an", "the", "der", "die", "das", "ein", "eine"})
_YEAR = re.compile(r"(?:18|19|20)\d\d")
SUBJECT, REST = 8, 12  # words at most


def dates_of(text: SourceText) -> Iterator[QuestionCandidate]:
    """Return a question for each sentence that says of one thing when it happened."""
    return turned_around(text, "date", question_of)


def question_of(sentence: str, language: Language) -> str | None:
    """Return what a sentence dates, as a question; None where it dates nothing, or several things.

    >>> question_of("On 3 May 2019 the Harbour Office was founded by five towns.", "en")
    'When was the Harbour Office founded by five towns?'
    >>> question_of("The library opened its new branch in May 2019.", "en")
    'When did the library open its new branch?'
    >>> question_of("Das Stadion an der Schleuse wurde am 3. Mai 1987 eröffnet.", "de")
    'Wann wurde das Stadion an der Schleuse eröffnet?'
    >>> question_of("Im Jahr 1987 wurde das Stadion an der Schleuse eröffnet.", "de")
    'Wann wurde das Stadion an der Schleuse eröffnet?'
    >>> question_of("It was founded in 2019 and closed in 2021.", "en") is None
    True
    """
    if not _YEAR.search(sentence):  # as most, which is seen at once
        return None
    found = [one for one in find_dates(sentence) if one.kind in _EXACT and one.first]
    if len(found) != 1 or not _YEAR.search(found[0].text):
        return None
    clause = _without(sentence, found[0], language)
    if clause is None:
        return None
    return _english(clause) if language == "en" else _german(*clause)


def _without(sentence: str, dated: Dated, language: Language) -> tuple[str, str] | None:
    """Return what stands before a date with its preposition and what after it; None without a preposition."""
    before, after = sentence[: dated.start], sentence[dated.end :].rstrip(" .!")
    found = re.search(rf"(?:^|(?<=\s))(?:{_prepositions(language)})\s*$", before, re.I)
    if found is None:
        bare = language == "de" and (dated.kind == "year" or not before.strip())  # "1907", "Anfang" aside
        return (before.strip(), after.strip(" ,")) if bare else None
    return before[: found.start()].strip(), after.strip(" ,")


@cache
def _prepositions(language: Language) -> str:
    return alternation("making", "dates_before", "english" if language == "en" else "german")


def _english(clause: tuple[str, str]) -> str | None:
    before, after = clause
    if before and after and not re.match(r"(?:by|with|after|when|and|as|under|at|for|to|,|;|\()", after):
        return None  # what the sentence goes on with is more than the date
    whole = before or after
    whole = re.split(r"[,;(:–—]| and | but | which | who | when | after | before | because ", whole)[
        0
    ].strip()
    return _passive(whole) or _active(whole)


def _passive(clause: str) -> str | None:
    found = re.match(rf"(?P<subject>.+?) (?P<aux>{_or('passives')}) (?P<verb>\w+)(?P<rest>.*)$", clause)
    if not found or not _is_subject(found["subject"], "en"):
        return None
    verb = found["verb"]
    if not (verb.endswith("ed") or verb in entries("making", "participles", "english")):
        return None
    return _when(f"When {found['aux']} {_inside(found['subject'])} {verb}{found['rest']}?", found["rest"])


def _active(clause: str) -> str | None:
    for base, past in groups("making", "english")["past"].items():
        found = re.match(rf"(?P<subject>.+?) {past}(?P<rest>(?: .*)?)$", clause)
        if found and _is_subject(found["subject"], "en"):
            return _when(f"When did {_inside(found['subject'])} {base}{found['rest']}?", found["rest"])
    return None


def _german(before: str, after: str) -> str | None:
    """Turn a main clause around whose verb stands second: its date, or its subject, stands before it."""
    if re.search(r"[,;:(–—„\"]", f"{before} {after}"):
        return None
    verbs = _or("dated", "german")
    if not before:
        found = re.match(rf"(?P<verb>{verbs}) (?P<rest>.+)$", after)
        subject = found["rest"] if found else ""
        if not found or not _is_subject(" ".join(subject.split()[:2]), "de"):
            return None
        return _when(f"Wann {found['verb']} {found['rest']}?", found["rest"])
    found = re.match(rf"(?P<subject>.+?) (?P<verb>{verbs})\b(?P<rest>.*)$", f"{before} {after}".strip())
    if not found or not _is_subject(found["subject"], "de"):
        return None
    return _when(f"Wann {found['verb']} {_inside(found['subject'])}{found['rest']}?", found["rest"])


def _is_subject(words: str, language: Language) -> bool:
    """Return whether words name something by themselves: no pronoun, no adverb, no clause."""
    parts = words.split()
    if not parts or len(parts) > SUBJECT or not content_words(words) or re.search(r"[,;:()–—]", words):
        return False
    first = parts[0].casefold()
    return first in _ARTICLES or first not in stop_words(language)


def _inside(subject: str) -> str:
    first, _, rest = subject.partition(" ")
    return f"{first.lower()} {rest}" if first.casefold() in _ARTICLES else subject


def _when(question: str, rest: str) -> str | None:
    return question if len(rest.split()) <= REST else None


def _or(group: str, language: str = "english") -> str:
    return alternation("making", group, "german" if language == "german" else "english")
