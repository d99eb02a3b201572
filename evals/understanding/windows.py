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

from evals.understanding.asking import READ
from evals.understanding.dates import Dated, day_of, find_dates
from evals.understanding.words import words

Relation = Literal["before", "until", "after", "since", "during"]

_PUBLISHING = re.compile(
    r"""(?:re)?publish(?:ed|es|ing)?|issue[ds]?|released?|adopt(?:ed|s)?|enacted?|appear(?:ed|s)?|written|wrote
    |posted|printed|prescribed|promulgated|reported|dated|announced?|publication
    |(?:ge|er|ver)?(?:schrieben|schienen|öffentlicht|abschiedet|lassen)(?:e[nrs]?)?
    |veröffentlicht(?:e[nrsm]?)?|erschien(?:en)?(?:e[nrsm]?)?|erscheinen|publiziert(?:e[nrsm]?)?|verabschiedet(?:e[nrsm]?)?
    |erlassen(?:e[nrsm]?)?|geschrieben(?:e[nrsm]?)?|berichtet(?:e[nrsm]?)?|gemeldet(?:e[nrsm]?)?|vermeldet""",
    re.IGNORECASE | re.VERBOSE,
)
_DOCUMENT = re.compile(
    r"""acts?|laws?|directives?|regulations?|decisions?|rules?|texts?|reports?|articles?|posts?|news|documents?
    |papers?|entries|entry|stories|story|coverage|interviews?|press
    |(?:\w+)?(?:gesetz|richtlinie|verordnung|artikel|bericht|meldung|beitrag|beiträge|dokument|text|entscheidung
    |beschluss|beschlüsse|rechtsakt|nachricht|interview|eintrag|einträge)(?:e[nrs]?|n|s|en)?""",
    re.IGNORECASE | re.VERBOSE,
)
_CONTENT = re.compile(
    r"""targets?|goals?|objectives?|aims?|deadlines?|forecasts?|plan(?:ned|s)?|seasons?|contracts?|events?|change[ds]?
    |reach(?:ed)?|achieve[ds]?|reduc(?:e|ed|tion)|cut|expires?|valid|happen(?:ed|s)?|used|consum\w*|applied|since
    |\w*(?:ziel|saison|spielzeit|frist|vertrag|plan|prognose)(?:e[ns]?|s|n)?|erreich(?:en|t)|senken|gesenkt|gültig
    |gilt|läuft|passiert""",
    re.IGNORECASE | re.VERBOSE,
)
_BOUNDS: tuple[tuple[Relation, str], ...] = (
    ("before", r"\b(?:before|prior to|earlier than|vor|älter als)"),
    ("until", r"\b(?:until|till|up to|by|no later than|bis(?: einschließlich| zum| zur| ende)?)"),
    ("after", r"\b(?:after|later than|nach)"),
    ("since", r"\b(?:since|as of|starting (?:in|from)|seit|ab)"),
)
_THE = r"(?:\s+(?:the|dem|der|den|year|years|jahr|jahre|jahren))*\s*$"
_BEFORE = tuple((bound, re.compile(rf"(?:{pattern}){_THE}", re.I)) for bound, pattern in _BOUNDS)
_FROM = re.compile(
    r"\b(?:from|von|vom|aus|of|dated|between|zwischen)(?:\s+(?:the|dem|der|den|year|years|jahr|jahre|jahren))*\s*$",
    re.I,
)
_JOIN = re.compile(
    r"^\s*(?:and|und|to|bis|bis zum|until|till|–|-|through)\s*(?:the\s+|zum\s+|dem\s+)?$", re.I
)
_PAIRED = re.compile(
    r"\b(?:between|zwischen|from|von|vom)(?:\s+(?:the|dem|der|den|years?|jahr\w*))*\s*$", re.I
)
_ONWARDS = re.compile(r"^\s*(?:onwards?|on\b|and later|or later|an\b|und später|oder später)", re.I)
_HELPING = re.compile(r"\b(?:wurden?|ist|sind|war|waren|hat|haben|worden)\b", re.I)
AROUND = 40  # characters around a date that say how it bounds
VERB_REACH, NOUN_REACH, AFTER_REACH, FINAL_REACH = 6, 8, 3, 12  # words between a cue and its date, at most


@dataclass(frozen=True)
class Window:
    """Days of publication, both ends included; None: open."""

    first: date | None
    last: date | None


@dataclass(frozen=True)
class _Stretch:
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
    text = text[:READ]
    now = day_of(asked_at)
    dates = [one for one in find_dates(text, asked_at) if one.first is not None]
    found: list[Window] = []
    for stretch in _stretches(text, dates):
        first = stretch.window.first
        if now and first and first > now:
            continue  # nothing was published after the day of asking: the content is about that day
        if _is_publication(text, stretch) and stretch.window not in found:
            found.append(stretch.window)
    return found


def _stretches(text: str, dates: list[Dated]) -> list[_Stretch]:
    found: list[_Stretch] = []
    position = 0
    while position < len(dates):
        one = dates[position]
        position += 1
        if one.kind == "season":
            continue
        before = text[max(0, one.start - AROUND) : one.start]
        end, last = one.end, one.last
        follower = dates[position] if position < len(dates) else None
        if follower and _PAIRED.search(before) and _JOIN.match(text[one.end : follower.start]):
            end, last = follower.end, follower.last
            position += 1
            found.append(_Stretch(one.start, end, Window(one.first, last), "during", True))
            continue
        bound = relation(text, one)
        found.append(_Stretch(one.start, end, _bounded(one, bound), bound, bool(_FROM.search(before))))
    return found


def relation(text: str, one: Dated) -> Relation:
    """Say how the words around a date bound what is meant.

    >>> text = "before 2005"
    >>> relation(text, find_dates(text)[0])
    'before'
    """
    before, after = text[max(0, one.start - AROUND) : one.start], text[one.end : one.end + AROUND]
    for bound, pattern in _BEFORE:
        if pattern.search(before):
            return bound
    return "since" if _ONWARDS.match(after) and _FROM.search(before) else "during"


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


def _is_publication(text: str, stretch: _Stretch) -> bool:
    """Say whether the nearest cue by a date is one of publishing."""
    sentence_start = max(text.rfind(mark, 0, stretch.start) for mark in ("? ", "! ", "; ", ": "))
    before = [word.text for word in words(text[max(0, sentence_start) : stretch.start])][::-1]
    after = [word.text for word in words(text[stretch.end :])]
    if after and _CONTENT.fullmatch(after[0]):
        return False  # "the 2030 target"
    if after and stretch.relation == "during" and _DOCUMENT.fullmatch(after[0]):
        return True  # "the 2012 directive"
    for distance, word in enumerate(before[:NOUN_REACH]):
        if distance and _CONTENT.fullmatch(word):
            break
        if _PUBLISHING.fullmatch(word) and distance < VERB_REACH:
            return True
        near = distance <= 1 and stretch.relation != "during"  # "news since yesterday"
        if (stretch.of or near) and _DOCUMENT.fullmatch(word):
            return True
    return _verb_after(after, bool(_HELPING.search(text[: stretch.start])))


def _verb_after(after: list[str], helped: bool) -> bool:
    """Look for the verb behind a date: close by, or at the end of a German clause."""
    reach = FINAL_REACH if helped else AFTER_REACH
    for word in after[:reach]:
        if _CONTENT.fullmatch(word):
            return False
        if _PUBLISHING.fullmatch(word):
            return True
    return False
