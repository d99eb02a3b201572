"""Windows of publication that a question asks for, told apart from the dates that its content is about.

"Rules published before 2005" asks for old documents; "the target for 2030", "the season 2019/20" and "to be
reached by 2030" say what a document is about, whenever it appeared. A date counts as one of publication when
a word of publishing ("published", "erschienen") or a word for a document ("the directive of 2012") stands by
it, and no word of content ("target", "Ziel", "season") stands nearer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Literal

from evals.understanding.rules.named_dates import Dated, day_of, find_dates
from evals.understanding.rules.publishing_cues import Place, is_of_publishing
from evals.understanding.rules.question_words import MAX_READ

Relation = Literal["before", "until", "after", "since", "during"]

_BOUNDS: tuple[tuple[Relation, str], ...] = (
    ("before", r"\b(?:before|prior to|earlier than|older than|vor|älter als)"),
    ("until", r"\b(?:until|till|up to|by|no later than|bis(?: einschließlich| zum| zur| ende)?)"),
    ("after", r"\b(?:after|later than|nach|später als)"),
    ("since", r"\b(?:since|as of|starting (?:in|from)|seit|ab)"),
)
_THE = r"(?:\s+(?:the|dem|der|den|year|years|jahr|jahre|jahren))*\s*$"
_BEFORE = tuple((bound, re.compile(rf"(?:{pattern}){_THE}", re.I)) for bound, pattern in _BOUNDS)
_FROM = re.compile(
    r"\b(?:from|von|vom|aus|of|dated|between|zwischen|der|des)(?:\s+(?:the|dem|der|den|year|years|jahr|jahre|jahren))*\s*$",
    re.I,
)
_JOIN = re.compile(
    r"^\s*(?:and|und|to|bis|bis zum|until|till|–|-|through)\s*(?:the\s+|zum\s+|dem\s+)?$", re.I
)
_PAIRED = re.compile(
    r"\b(?:between|zwischen|from|von|vom)(?:\s+(?:the|dem|der|den|years?|jahr\w*))*\s*$", re.I
)
_EDGE = re.compile(
    r"\s+(?:the\s+)?(?P<edge>end|ende|late|beginning|start|early|anfang|middle|mid|mitte)(?:\s+(?:of|des|von))?$",
    re.I,
)
_LATE = {"end", "ende", "late"}
_EARLY = {"beginning", "start", "early", "anfang"}
_NOT = re.compile(r"\b(?:not|no|never|nicht|nie|keine[nmrs]?)\s+$", re.I)
_ONWARDS = re.compile(r"^\s*(?:onwards?|on\b|and later|or later|an\b|und später|oder später)", re.I)
AROUND = 40  # characters around a date that say how it bounds


@dataclass(frozen=True)
class Window:
    """Days of publication, both ends included; None: open."""

    first: date | None
    last: date | None


@dataclass(frozen=True)
class _DatedPart:
    """Characters of a text that name days, and how they bound what is asked for."""

    start: int
    end: int
    window: Window
    relation: Relation
    of: bool  # "from", "of", "aus", "dated" before it: a noun before that is what is dated


def windows(text: str, asked_at: str | None = None) -> list[Window]:
    """Return the publication windows that a question names; none of its content's dates.

    >>> windows("Which rules were published before 2005?")
    [Window(first=None, last=datetime.date(2004, 12, 31))]
    >>> windows("What is the target for 2030?")
    []
    """
    text = text[:MAX_READ]
    now = day_of(asked_at)
    dates = [one for one in find_dates(text, asked_at) if one.first is not None]
    found: list[Window] = []
    for part in _dated_parts(text, dates):
        first = part.window.first
        if now and first and first > now:
            continue  # nothing was published after the day of asking: the content is about that day
        place = Place(part.start, part.end, during=part.relation == "during", of=part.of)
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
    return _PAIRED.search(before) is not None and _JOIN.match(between) is not None


def _dated_parts(text: str, dates: list[Dated]) -> list[_DatedPart]:
    found: list[_DatedPart] = []
    for one in date_spans(text, dates):
        if one.kind == "season":
            continue
        before = text[max(0, one.start - AROUND) : one.start]
        bound = relation(text, one)
        of = bool(_FROM.search(before)) or one.text.lower().startswith(("der ", "des "))
        found.append(_DatedPart(one.start, one.end, _bounded(one, bound), bound, of))
    return found


def relation(text: str, one: Dated) -> Relation:
    """Say how the words around a date bound what is meant.

    >>> text = "before 2005"
    >>> relation(text, find_dates(text)[0])
    'before'
    """
    before, after = text[max(0, one.start - AROUND) : one.start], text[one.end : one.end + AROUND]
    edge = _EDGE.search(re.sub(r"\s+(?:the|des|dem)?\s*$", "", before) if before else before)
    side = edge["edge"].lower() if edge else ""
    before = before[: edge.start()] if edge else before
    for bound, pattern in _BEFORE:
        found = pattern.search(before)
        if found:
            return _turned(bound, side, denied=_NOT.search(before[: found.start()]) is not None)
    return "since" if _ONWARDS.match(after) and _FROM.search(before) else "during"


def _turned(bound: Relation, side: str, *, denied: bool) -> Relation:
    """Return what "not before" means, and "before the end of"; days too many rather than too few."""
    if denied:
        return {"before": "since", "after": "until"}.get(bound, bound)  # type: ignore[return-value]
    if bound == "before" and side not in _EARLY and side:
        return "until"
    return "since" if bound == "after" and side and side not in _LATE else bound


def _bounded(one: Dated, bound: Relation) -> Window:
    if one.first is None or one.last is None:
        raise ValueError("a date without days bounds nothing")
    day = timedelta(days=1)
    return {
        "before": Window(None, one.first - day),
        "until": Window(None, one.last),
        "after": Window(one.last + day, None),
        "since": Window(one.first, None),
        "during": Window(one.first, one.last),
    }[bound]
