"""Finds the window of publication dates that a question asks for.

"Rules published before 2005" asks for old documents; "the target for 2030", "the season 2019/20" and "to be
reached by 2030" say what a document is about, whenever it appeared. A date counts as one of publication when
a word of publishing ("published", "erschienen") or a word for a document ("the directive of 2012") stands by
it, and no word of content ("target", "Ziel", "season") stands nearer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import cache, partial
from typing import Literal

from rag_assay.evals.query_transforms.rules.named_dates import Dated, day_of, find_dates
from rag_assay.evals.query_transforms.rules.publishing_cues import DatePosition, is_of_publishing
from rag_assay.evals.retrieval.question_words import MAX_READ
from rag_assay.evals.word_lists import alternation, entries

Relation = Literal["before", "until", "after", "since", "during"]

AROUND = 40  # characters around a date that say how it bounds


@dataclass(frozen=True)
class DateWindow:
    """Days of publication, both ends included; None: open.

    words: of the question that name it; empty where that is not known
    """

    first: date | None
    last: date | None
    words: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True)
class _DatedPart:
    """Characters of a text that name days, and how they bound what is asked for."""

    start: int
    end: int
    window: DateWindow
    relation: Relation
    of: bool  # "from", "of", "aus", "dated" before it: a noun before that is what is dated


@dataclass(frozen=True)
class _Cues:
    """Patterns of what stands around a date.

    bounds: the relation that a preposition before the date makes
    origin: "from", "of", "aus", "dated": a noun before it is what is dated
    paired, joining: "between", and "and", of two dates that are the ends of one window
    edge: "the end of", "anfang" before the date
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
    """Make the patterns of the word lists, when the first question is read."""
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
    """Return the publication windows that a question names; none of its content's dates.

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
    """Return how the words around a date bound what is meant, and where those before it begin."""
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
    """Return what "not before" means, and "before the end of"; days too many rather than too few."""
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
