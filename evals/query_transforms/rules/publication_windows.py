"""Finds the window of publication dates that a question asks for.

A date counts as one of publication when a word of publishing ("erschienen") or for a document ("the directive
of 2012") stands by it and no word of content ("target", "season") stands nearer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from typing import Literal, NamedTuple

from rag_assay.evals.query_transforms.rules.named_dates import Dated, day_of, find_dates
from rag_assay.evals.retrieval.question_words import MAX_READ, stop_words, words
from rag_assay.evals.word_lists import LANGUAGES, alternation, entries

VERB_REACH, NOUN_REACH, AFTER_REACH, FINAL_REACH = 6, 8, 3, 12  # words between a cue and its date, at most


def _cue(pattern: str, group: str) -> str:
    return "(?i)" + pattern.format(alternation("publishing", group))


def _words_for(*groups: str) -> str:
    """Match words for documents; a German one is the last part of a compound."""
    found = []
    for group in groups:
        english, german = (alternation("publishing", group, language) for language in LANGUAGES)
        found.append(rf"{english}|\w*(?:{german})(?:e[nrs]?|n|s|en)?")
    return "(?i)" + "|".join(found)


_PUBLISHING, _CONTENT = _cue("{}", "publishing"), _cue("{}", "content")
_DOCUMENTS = _words_for("legal_documents", "reportage", "other_documents")
_LEGAL, _REPORTAGE = _words_for("legal_documents"), _words_for("reportage")
_CHANGING = _cue(r"(?:{})\w*", "changing")
_CLOSE = _cue(r"\b(?:{})\b", "close_prepositions")
_AUXILIARIES = _cue(r"\b(?:{})\b", "auxiliaries")  # they send a German verb to the end of its clause
_FILLERS = frozenset(entries("publishing", "date_articles") + entries("publishing", "fillers"))
# Words that bound a date ("before", "the end of")
_BINDING = _FILLERS.union(entries("publishing", "binding"))
_TOPICS = frozenset(entries("publishing", "topic_prepositions"))  # they put a date among the content


Relation = Literal["before", "until", "after", "since", "during"]


@dataclass(frozen=True)
class DateWindow:
    """Days of publication, both ends included; None: open. ``words``: of the question that name it."""

    first: date | None
    last: date | None
    words: str = field(default="", compare=False, repr=False)


class DatePosition(NamedTuple):
    """Where a date stands; of: "from", "aus" before it: a noun before that is dated"""

    start: int
    end: int
    of: bool
    relation: Relation = "during"
    window: DateWindow = DateWindow(None, None)


def is_of_publishing(text: str, place: DatePosition) -> bool:
    """Return whether the nearest cue by a date is one of publishing.

    >>> text = "Which law of 2012 sets a target for 2030?"
    >>> is_of_publishing(text, DatePosition(13, 17, of=True))
    True
    >>> is_of_publishing(text, DatePosition(36, 40, of=False))
    False
    """
    sentence_start = max(text.rfind(mark, 0, place.start) for mark in ("? ", "! ", "; ", ": "))
    before = [word.text for word in words(text[max(0, sentence_start) : place.start])][::-1]
    after = [word.text for word in words(text[place.end :])]
    if (after and re.fullmatch(_CONTENT, after[0])) or (before and before[0].lower() in _TOPICS):
        return False  # "the 2030 target", "the results for 2021"
    if after and place.relation == "during" and re.fullmatch(_DOCUMENTS, after[0]):
        named = len(before) == 1 and before[0].lower() not in stop_words()  # "Windows 2000 report"
        return not named and _is_wanted(after[0], ["", *before])  # "the 2012 directive"
    found = _by_words_before(text, place, before)
    if found is not None:
        return found
    return _verb_after(after, helped=re.search(_AUXILIARIES, text[: place.start]) is not None)


def _by_words_before(text: str, place: DatePosition, before: list[str]) -> bool | None:
    # "the crash of 2008" is no document of 2008: the word before "of" must be one.
    close = place.of and re.search(_CLOSE, text[max(0, place.start - 12) : place.start]) is not None
    binds = fills = True  # all words between the cue and the date only bind them, or fill in
    for distance, word in enumerate(before[:NOUN_REACH]):
        binds_now = binds and word.lower() in _BINDING
        if distance and not binds_now and re.fullmatch(_CONTENT, word):
            return None
        if distance < VERB_REACH and re.fullmatch(_PUBLISHING, word):
            return distance > 0 or word.lower() != "wrote"  # "who wrote 1984?"
        # "news since yesterday", "rules not older than 2015"
        joined = (place.of and (fills or not close)) or (binds and place.relation != "during")
        if joined and re.fullmatch(_DOCUMENTS, word):
            return _is_wanted(word, before[distance:])
        binds, fills = binds_now, fills and word.lower() in _FILLERS
    return None


def _is_wanted(document: str, before: list[str]) -> bool:
    close = [word for word in before[:5] if word.lower() not in _FILLERS]
    if any(word.lower() in _TOPICS | {"zum", "zur"} or re.fullmatch(_CHANGING, word) for word in close[:3]):
        return False
    return not (re.fullmatch(_LEGAL, document) and any(re.fullmatch(_REPORTAGE, word) for word in before[1:]))


def _verb_after(after: list[str], *, helped: bool) -> bool:
    reach = FINAL_REACH if helped else AFTER_REACH
    for word in after[:reach]:
        if re.fullmatch(_CONTENT, word):
            return False
        if re.fullmatch(_PUBLISHING, word):
            return True
    return False


AROUND = 40  # characters around a date that say how it bounds
_ARTICLES = rf"(?:\s+(?:{alternation('publishing', 'date_articles')}))*\s*$"
_RELATIONS: tuple[Relation, ...] = ("before", "until", "after", "since")
_BOUNDS = [(name, _cue(r"(?:\b(?:{}))" + _ARTICLES, name)) for name in _RELATIONS]
_ORIGIN = _cue(r"\b(?:{})" + _ARTICLES, "origins")
_PAIRED = _cue(r"\b(?:{})(?:\s+(?:the|dem|der|den|years?|jahr\w*))*\s*$", "pairing")  # "between" …
_JOINING = _cue(r"^\s*(?:–|-|{})\s*(?:the\s+|zum\s+|dem\s+)?$", "joining")  # … "and"
_EDGES = "|".join(alternation("publishing", group) for group in ("ends", "beginnings", "middles"))
_EDGE = rf"(?i)\s+(?:the\s+)?(?P<edge>{_EDGES})(?:\s+(?:of|des|von))?$"
_LATE, _EARLY = frozenset(entries("publishing", "ends")), frozenset(entries("publishing", "beginnings"))
_NEGATION, _ONWARDS = _cue(r"\b(?:{})\s+$", "negations"), _cue(r"^\s*(?:{})", "onwards")


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
        if is_of_publishing(text, part) and part.window not in found:
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
    return re.search(_PAIRED, before) is not None and re.match(_JOINING, between) is not None


def _dated_parts(text: str, dates: list[Dated]) -> list[DatePosition]:
    found: list[DatePosition] = []
    for one in date_spans(text, dates):
        if one.kind == "season":
            continue
        before = text[max(0, one.start - AROUND) : one.start]
        bound = relation(text, one)
        of = bool(re.search(_ORIGIN, before)) or one.text.lower().startswith(("der ", "des "))
        window = replace(_bounded(one, bound), words=text[_bound(text, one)[1] : one.end])
        found.append(DatePosition(one.start, one.end, of, bound, window))
    return found


def relation(text: str, one: Dated) -> Relation:
    return _bound(text, one)[0]


def _bound(text: str, one: Dated) -> tuple[Relation, int]:
    place = max(0, one.start - AROUND)
    before, after = text[max(0, one.start - AROUND) : one.start], text[one.end : one.end + AROUND]
    edge = re.search(_EDGE, re.sub(r"\s+(?:the|des|dem)?\s*$", "", before) if before else before)
    side = edge["edge"].lower() if edge else ""
    before = before[: edge.start()] if edge else before
    for bound, pattern in _BOUNDS:
        found = re.search(pattern, before)
        if found:
            denied = re.search(_NEGATION, before[: found.start()])
            begins = place + (denied or found).start()
            return _turned(bound, side, denied=denied is not None), begins
    is_onwards = re.match(_ONWARDS, after) and re.search(_ORIGIN, before)
    return "since" if is_onwards else "during", one.start


def _turned(bound: Relation, side: str, *, denied: bool) -> Relation:
    if denied:
        return {"before": "since", "after": "until"}.get(bound, bound)  # type: ignore[return-value]
    if bound == "before" and side not in _EARLY and side:
        return "until"
    return "since" if bound == "after" and side and side not in _LATE else bound


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
