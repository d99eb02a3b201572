"""Finds the window of publication dates that a question asks for.

A date counts as one of publication when a word of publishing ("erschienen") or for a document ("the directive
of 2012") stands by it and no word of content ("target", "season") stands nearer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import cache, partial
from typing import Literal

from rag_assay.evals.query_transforms.rules.named_dates import Dated, day_of, find_dates
from rag_assay.evals.retrieval.question_words import MAX_READ, stop_words, words
from rag_assay.evals.word_lists import alternation, entries

VERB_REACH, NOUN_REACH, AFTER_REACH, FINAL_REACH = 6, 8, 3, 12  # words between a cue and its date, at most


@dataclass(frozen=True)
class _PublishingCues:
    """Patterns of whole words, and sets of plain words, that stand around a date.

    documents: words for a document, of which `legal` and `reportage` are two kinds
    auxiliaries: they send a German verb to the end of its clause
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
def _publishing_cues() -> _PublishingCues:
    listed = partial(alternation, "publishing")

    def of_compounds(group: str) -> str:
        return rf"\w*(?:{listed(group, 'german')})(?:e[nrs]?|n|s|en)?"

    def documents(*groups: str) -> re.Pattern[str]:
        return _compiled("|".join(f"{listed(group, 'english')}|{of_compounds(group)}" for group in groups))

    articles = {*entries("publishing", "date_articles"), *entries("publishing", "fillers")}
    return _PublishingCues(
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


@dataclass(frozen=True)
class DatePosition:
    """Where a date stands in a question, and how it is joined to what stands before it."""

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
    cues = _publishing_cues()
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
    cues = _publishing_cues()
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
    cues = _publishing_cues()
    close = [word for word in before[:5] if word.lower() not in cues.fillers]
    if any(
        word.lower() in cues.topics | {"zum", "zur"} or cues.changing.fullmatch(word) for word in close[:3]
    ):
        return False
    return not (cues.legal.fullmatch(document) and any(cues.reportage.fullmatch(word) for word in before[1:]))


def _verb_after(after: list[str], *, helped: bool) -> bool:
    cues = _publishing_cues()
    reach = FINAL_REACH if helped else AFTER_REACH
    for word in after[:reach]:
        if cues.content.fullmatch(word):
            return False
        if cues.publishing.fullmatch(word):
            return True
    return False


Relation = Literal["before", "until", "after", "since", "during"]

AROUND = 40  # characters around a date that say how it bounds


@dataclass(frozen=True)
class DateWindow:
    """Days of publication, both ends included; None: open. ``words``: of the question that name it."""

    first: date | None
    last: date | None
    words: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True)
class _DatedPart:
    """Characters of a text that name days, and the window they set."""

    start: int
    end: int
    window: DateWindow
    relation: Relation
    of: bool  # "from", "of", "aus", "dated" before it: a noun before that is what is dated


@dataclass(frozen=True)
class _Cues:
    """Patterns of what stands around a date.

    paired, joining: "between", and "and", of two dates that are the ends of one window
    late, early: words of `edge` that mean the end, or the beginning
    negation, onwards: "not" before a bound, "or later" behind a date
    """

    bounds: tuple[tuple[Relation, re.Pattern[str]], ...]
    origin: re.Pattern[str]
    paired: re.Pattern[str]
    joining: re.Pattern[str]
    edge: re.Pattern[str]
    late: frozenset[str]
    early: frozenset[str]
    negation: re.Pattern[str]
    onwards: re.Pattern[str]


@cache
def _cues() -> _Cues:
    listed = partial(alternation, "publishing")
    articles = rf"(?:\s+(?:{listed('date_articles')}))*\s*$"
    edges = "|".join(listed(group) for group in ("ends", "beginnings", "middles"))
    relations: tuple[Relation, ...] = ("before", "until", "after", "since")
    return _Cues(
        bounds=tuple((name, _compiled(rf"(?:\b(?:{listed(name)})){articles}")) for name in relations),
        origin=_compiled(rf"\b(?:{listed('origins')}){articles}"),
        paired=_compiled(rf"\b(?:{listed('pairing')})(?:\s+(?:the|dem|der|den|years?|jahr\w*))*\s*$"),
        joining=_compiled(rf"^\s*(?:–|-|{listed('joining')})\s*(?:the\s+|zum\s+|dem\s+)?$"),
        edge=_compiled(rf"\s+(?:the\s+)?(?P<edge>{edges})(?:\s+(?:of|des|von))?$"),
        late=frozenset(entries("publishing", "ends")),
        early=frozenset(entries("publishing", "beginnings")),
        negation=_compiled(rf"\b(?:{listed('negations')})\s+$"),
        onwards=_compiled(rf"^\s*(?:{listed('onwards')})"),
    )


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


def windows(text: str, asked_at: str | None = None) -> list[DateWindow]:
    """Return the publication windows that a question names, without dates of its content.

    >>> windows("Which rules were published before 2005?")
    [DateWindow(first=None, last=datetime.date(2004, 12, 31))]
    >>> windows("What is the target for 2030?")
    []
    """
    text = text[:MAX_READ]
    now = day_of(asked_at)
    dates = [one for one in find_dates(text, asked_at) if one.first is not None]
    found: list[DateWindow] = []
    for part in _dated_parts(text, dates):
        first = part.window.first
        if now and first and first > now:
            continue  # nothing was published after the day of asking: the content is about that day
        place = DatePosition(part.start, part.end, during=part.relation == "during", of=part.of)
        if is_of_publishing(text, place) and part.window not in found:
            found.append(part.window)
    return found


def date_spans(text: str, dates: list[Dated]) -> list[Dated]:
    """Return the dates of a text, the two ends of "from … to …" and "between … and …" as one.

    >>> text = "from May 2020 to July 2021"
    >>> [(str(one.first), str(one.last)) for one in date_spans(text, find_dates(text))]
    [('2020-05-01', '2021-07-31')]
    """
    found: list[Dated] = []
    left = list(dates)
    while left:
        one = left.pop(0)
        if left and _is_paired(text, one, left[0]):
            other = left.pop(0)
            kind = one.kind if one.kind == other.kind == "season" else "period"
            whole = text[one.start : other.end]
            one = Dated(kind, whole, one.start, other.end, one.first, other.last)
        found.append(one)
    return found


def _is_paired(text: str, one: Dated, other: Dated) -> bool:
    if one.first is None or other.last is None or one.first > other.last:
        return False
    before, between = text[max(0, one.start - AROUND) : one.start], text[one.end : other.start]
    return _cues().paired.search(before) is not None and _cues().joining.match(between) is not None


def _dated_parts(text: str, dates: list[Dated]) -> list[_DatedPart]:
    found: list[_DatedPart] = []
    for one in date_spans(text, dates):
        if one.kind == "season":
            continue
        before = text[max(0, one.start - AROUND) : one.start]
        bound = relation(text, one)
        of = bool(_cues().origin.search(before)) or one.text.lower().startswith(("der ", "des "))
        window = replace(_bounded(one, bound), words=text[_bound(text, one)[1] : one.end])
        found.append(_DatedPart(one.start, one.end, window, bound, of))
    return found


def relation(text: str, one: Dated) -> Relation:
    """Say how the words around a date bound what is meant.

    >>> text = "before 2005"
    >>> relation(text, find_dates(text)[0])
    'before'
    """
    return _bound(text, one)[0]


def _bound(text: str, one: Dated) -> tuple[Relation, int]:
    place = max(0, one.start - AROUND)
    before, after = text[max(0, one.start - AROUND) : one.start], text[one.end : one.end + AROUND]
    edge = _cues().edge.search(re.sub(r"\s+(?:the|des|dem)?\s*$", "", before) if before else before)
    side = edge["edge"].lower() if edge else ""
    before = before[: edge.start()] if edge else before
    for bound, pattern in _cues().bounds:
        found = pattern.search(before)
        if found:
            denied = _cues().negation.search(before[: found.start()])
            begins = place + (denied or found).start()
            return _turned(bound, side, denied=denied is not None), begins
    is_onwards = _cues().onwards.match(after) and _cues().origin.search(before)
    return "since" if is_onwards else "during", one.start


def _turned(bound: Relation, side: str, *, denied: bool) -> Relation:
    if denied:
        return {"before": "since", "after": "until"}.get(bound, bound)  # type: ignore[return-value]
    if bound == "before" and side not in _cues().early and side:
        return "until"
    return "since" if bound == "after" and side and side not in _cues().late else bound


def _bounded(one: Dated, bound: Relation) -> DateWindow:
    if one.first is None or one.last is None:
        raise ValueError("a date without days bounds nothing")
    day = timedelta(days=1)
    return {
        "before": DateWindow(None, one.first - day),
        "until": DateWindow(None, one.last),
        "after": DateWindow(one.last + day, None),
        "since": DateWindow(one.first, None),
        "during": DateWindow(one.first, one.last),
    }[bound]
