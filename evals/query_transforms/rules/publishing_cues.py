"""Rules that tell whether a date in a question is a publication date, by the words around it.

A word of publishing ("published", "erschienen") or a word for a document ("the directive of 2012") makes it
one; a nearer word of content ("target", "Ziel", "season") does not. Where a report on a law is asked for, the
law's year says nothing of the report's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, partial

from rag_assay.evals.retrieval.question_words import stop_words, words
from rag_assay.evals.word_lists import alternation, entries

VERB_REACH, NOUN_REACH, AFTER_REACH, FINAL_REACH = 6, 8, 3, 12  # words between a cue and its date, at most


@dataclass(frozen=True)
class _Cues:
    """Patterns of whole words, and sets of plain words, that stand around a date.

    publishing, content: words that make a date one of publication, or one of the content
    documents: words for a document, of which `legal` and `reportage` are two kinds
    changing: words for what one law does to another
    close: "of": the date belongs to the noun before it
    auxiliaries: they send a German verb to the end of its clause
    fillers: articles and the like between a cue and its date
    binding: fillers, and words that bound a date ("before", "the end of")
    topics: prepositions that put a date among the content ("about 2021")
    """

    publishing: re.Pattern[str]
    documents: re.Pattern[str]
    legal: re.Pattern[str]
    reportage: re.Pattern[str]
    content: re.Pattern[str]
    changing: re.Pattern[str]
    close: re.Pattern[str]
    auxiliaries: re.Pattern[str]
    fillers: frozenset[str]
    binding: frozenset[str]
    topics: frozenset[str]


@cache
def _cues() -> _Cues:
    """Make the patterns of the word lists, when the first question is read."""
    listed = partial(alternation, "publishing")

    def of_compounds(group: str) -> str:
        return rf"\w*(?:{listed(group, 'german')})(?:e[nrs]?|n|s|en)?"

    def documents(*groups: str) -> re.Pattern[str]:
        return _compiled("|".join(f"{listed(group, 'english')}|{of_compounds(group)}" for group in groups))

    articles = {*entries("publishing", "date_articles"), *entries("publishing", "fillers")}
    return _Cues(
        publishing=_compiled(listed("publishing")),
        documents=documents("legal_documents", "reportage", "other_documents"),
        legal=documents("legal_documents"),
        reportage=documents("reportage"),
        content=_compiled(listed("content")),
        changing=_compiled(rf"(?:{listed('changing')})\w*"),
        close=_compiled(rf"\b(?:{listed('close_prepositions')})\b"),
        auxiliaries=_compiled(rf"\b(?:{listed('auxiliaries')})\b"),
        fillers=frozenset(articles),
        binding=frozenset(articles.union(entries("publishing", "binding"))),
        topics=frozenset(entries("publishing", "topic_prepositions")),
    )


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


@dataclass(frozen=True)
class DatePosition:
    """Where a date stands in a question, and how it is joined to what stands before it.

    during: no "before", "since", … bounds it
    of: "from", "of", "aus", "dated" before it: a noun before that is what is dated
    """

    start: int
    end: int
    during: bool
    of: bool


def is_of_publishing(text: str, place: DatePosition) -> bool:
    """Return whether the nearest cue by a date is one of publishing.

    >>> text = "Which law of 2012 sets a target for 2030?"
    >>> is_of_publishing(text, DatePosition(13, 17, during=True, of=True))
    True
    >>> is_of_publishing(text, DatePosition(36, 40, during=True, of=False))
    False
    """
    cues = _cues()
    sentence_start = max(text.rfind(mark, 0, place.start) for mark in ("? ", "! ", "; ", ": "))
    before = [word.text for word in words(text[max(0, sentence_start) : place.start])][::-1]
    after = [word.text for word in words(text[place.end :])]
    if (after and cues.content.fullmatch(after[0])) or (before and before[0].lower() in cues.topics):
        return False  # "the 2030 target", "the results for 2021"
    if after and place.during and cues.documents.fullmatch(after[0]):
        named = len(before) == 1 and before[0].lower() not in stop_words()  # "Windows 2000 report"
        return not named and _is_wanted(after[0], ["", *before])  # "the 2012 directive"
    found = _by_words_before(text, place, before)
    if found is not None:
        return found
    return _verb_after(after, helped=cues.auxiliaries.search(text[: place.start]) is not None)


def _by_words_before(text: str, place: DatePosition, before: list[str]) -> bool | None:
    """Return what the nearest cue before a date makes of it; None where there is no cue.

    before: the words before the date, the nearest first
    """
    cues = _cues()
    # "the crash of 2008" is no document of 2008: the word before "of" must be one.
    close = place.of and cues.close.search(text[max(0, place.start - 12) : place.start]) is not None
    binds = fills = True  # all words between the cue and the date only bind them, or fill in
    for distance, word in enumerate(before[:NOUN_REACH]):
        binds_now = binds and word.lower() in cues.binding
        if distance and not binds_now and cues.content.fullmatch(word):
            return None
        if distance < VERB_REACH and cues.publishing.fullmatch(word):
            return distance > 0 or word.lower() != "wrote"  # "who wrote 1984?"
        # "news since yesterday", "rules not older than 2015"
        joined = (place.of and (fills or not close)) or (binds and not place.during)
        if joined and cues.documents.fullmatch(word):
            return _is_wanted(word, before[distance:])
        binds, fills = binds_now, fills and word.lower() in cues.fillers
    return None


def _is_wanted(document: str, before: list[str]) -> bool:
    """Return whether a dated document is what is looked for: a report on a law of 2018 may be of any year.

    before: the words before the date, the nearest first
    """
    cues = _cues()
    close = [word for word in before[:5] if word.lower() not in cues.fillers]
    if any(
        word.lower() in cues.topics | {"zum", "zur"} or cues.changing.fullmatch(word) for word in close[:3]
    ):
        return False
    return not (cues.legal.fullmatch(document) and any(cues.reportage.fullmatch(word) for word in before[1:]))


def _verb_after(after: list[str], *, helped: bool) -> bool:
    """Look for the verb behind a date: close by, or at the end of a German clause."""
    cues = _cues()
    reach = FINAL_REACH if helped else AFTER_REACH
    for word in after[:reach]:
        if cues.content.fullmatch(word):
            return False
        if cues.publishing.fullmatch(word):
            return True
    return False
