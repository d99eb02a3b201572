"""Whether a date in a question is one of publication: which words stand by it.

A word of publishing ("published", "erschienen") or a word for a document ("the directive of 2012") makes it
one; a nearer word of content ("target", "Ziel", "season") does not. Where a report on a law is asked for, the
law's year says nothing of the report's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from evals.understanding.rules.question_words import STOP, words

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
_CLOSE = re.compile(r"\b(?:of|von|der|des)\b", re.IGNORECASE)
_FILLERS = {
    "the",
    "dem",
    "der",
    "den",
    "des",
    "year",
    "years",
    "jahr",
    "jahre",
    "jahren",
    "jahres",
    "of",
    "von",
}
_BINDING = _FILLERS | {
    "before", "after", "since", "until", "till", "by", "up", "to", "than", "older", "later", "earlier", "not",
    "no", "vor", "nach", "seit", "bis", "ab", "als", "älter", "später", "nicht", "zum", "zur",
    "einschließlich", "end", "ende", "beginning", "start", "anfang", "mitte", "early", "late", "mid",
}  # fmt: skip
_ABOUT = {"for", "für", "about", "über", "regarding", "concerning", "against", "gegen"}
_CHANGING = re.compile(r"(?:amend|repeal|replac|critici[sz]|änder|kritisier|aufheb|ersetz)\w*", re.IGNORECASE)
_REPORTAGE = re.compile(
    r"(?:reports?|articles?|posts?|news|papers?|entries|entry|stories|story|coverage|interviews?|press"
    r"|\w*(?:artikel|bericht|meldung|beitrag|beiträge|interview|eintrag|einträge|nachricht)(?:e[nrs]?|n|s|en)?)",
    re.IGNORECASE,
)
_LEGAL = re.compile(
    r"acts?|laws?|directives?|regulations?|decisions?|rules?"
    r"|\w*(?:gesetz|richtlinie|verordnung|entscheidung|beschluss|beschlüsse|rechtsakt)(?:e[nrs]?|n|s|en)?",
    re.IGNORECASE,
)
_HELPING = re.compile(r"\b(?:wurden?|ist|sind|war|waren|hat|haben|worden)\b", re.IGNORECASE)
VERB_REACH, NOUN_REACH, AFTER_REACH, FINAL_REACH = 6, 8, 3, 12  # words between a cue and its date, at most


@dataclass(frozen=True)
class Place:
    """Where a date stands in a question, and how it is joined to what stands before it.

    during: no "before", "since", … bounds it
    of: "from", "of", "aus", "dated" before it: a noun before that is what is dated
    """

    start: int
    end: int
    during: bool
    of: bool


def is_of_publishing(text: str, place: Place) -> bool:
    """Say whether the nearest cue by a date is one of publishing.

    >>> text = "Which law of 2012 sets a target for 2030?"
    >>> is_of_publishing(text, Place(13, 17, during=True, of=True))
    True
    >>> is_of_publishing(text, Place(36, 40, during=True, of=False))
    False
    """
    sentence_start = max(text.rfind(mark, 0, place.start) for mark in ("? ", "! ", "; ", ": "))
    before = [word.text for word in words(text[max(0, sentence_start) : place.start])][::-1]
    after = [word.text for word in words(text[place.end :])]
    if (after and _CONTENT.fullmatch(after[0])) or (before and before[0].lower() in _ABOUT):
        return False  # "the 2030 target", "the results for 2021"
    if after and place.during and _DOCUMENT.fullmatch(after[0]):
        named = len(before) == 1 and before[0].lower() not in STOP["en"] | STOP["de"]  # "Windows 2000 report"
        return not named and _is_asked_for(after[0], ["", *before])  # "the 2012 directive"
    found = _by_words_before(text, place, before)
    return _verb_after(after, _HELPING.search(text[: place.start]) is not None) if found is None else found


def _by_words_before(text: str, place: Place, before: list[str]) -> bool | None:
    """Say what the nearest cue before a date makes of it; None where there is no cue.

    before: the words before the date, the nearest first
    """
    # "the crash of 2008" is no document of 2008: the word before "of" must be one.
    close = place.of and _CLOSE.search(text[max(0, place.start - 12) : place.start]) is not None
    binds = fills = True  # all words between the cue and the date only bind them, or fill in
    for distance, word in enumerate(before[:NOUN_REACH]):
        binds_now = binds and word.lower() in _BINDING
        if distance and not binds_now and _CONTENT.fullmatch(word):
            return None
        if distance < VERB_REACH and _PUBLISHING.fullmatch(word):
            return distance > 0 or word.lower() != "wrote"  # "who wrote 1984?"
        # "news since yesterday", "rules not older than 2015"
        joined = (place.of and (fills or not close)) or (binds and not place.during)
        if joined and _DOCUMENT.fullmatch(word):
            return _is_asked_for(word, before[distance:])
        binds, fills = binds_now, fills and word.lower() in _FILLERS
    return None


def _is_asked_for(document: str, before: list[str]) -> bool:
    """Say whether a dated document is what is looked for: a report on a law of 2018 may be of any year.

    before: the words before the date, the nearest first
    """
    close = [word for word in before[:5] if word.lower() not in _FILLERS]
    if any(word.lower() in _ABOUT | {"zum", "zur"} or _CHANGING.fullmatch(word) for word in close[:3]):
        return False
    return not (_LEGAL.fullmatch(document) and any(_REPORTAGE.fullmatch(word) for word in before[1:]))


def _verb_after(after: list[str], helped: bool) -> bool:
    """Look for the verb behind a date: close by, or at the end of a German clause."""
    reach = FINAL_REACH if helped else AFTER_REACH
    for word in after[:reach]:
        if _CONTENT.fullmatch(word):
            return False
        if _PUBLISHING.fullmatch(word):
            return True
    return False
