"""Dates that a follow-up counts from the date of the question before: "und davor?", "the season after".

The date before and the step make another date, which is written out so that the question reads
as any other: a day, a month, a year, a season, or the days of a week.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Literal

from rag_assay.evals.query_transforms.rules.named_dates import Dated
from rag_assay.evals.retrieval.question_words import Language, words
from rag_assay.evals.word_lists import numbered

Unit = Literal["day", "week", "month", "year", "season"]

_EARLIER = r"davor|zuvor|vorher|früher|before|earlier|prior"
_LATER = r"danach|darauf|später|after|later|afterwards"
_UNITS: dict[Unit, str] = {
    "day": r"tage?n?|days?",
    "week": r"wochen?|weeks?",
    "month": r"monate?n?s?|months?",
    "year": r"jahre?n?s?|years?",
    "season": r"saisons?|spielzeiten|spielzeit|seasons?",
}
_UNIT = "|".join(_UNITS.values())
_END = r"(?=\s*(?:$|[?.!,;]))"
_BEFORE_THAT = rf"(?:{_EARLIER})(?:\s+(?:that|this|then))?"
_AFTER_THAT = rf"(?:{_LATER})(?:\s+(?:that|this|then))?"
_LED = r"(?:(?:am|an dem|im|in dem|in der|in den|in|on|at)\s+)?(?:(?:die|der|das|den|dem|the)\s+)?"
_STEP = re.compile(
    rf"""\b(?P<led>{_LED})(?:
        (?:(?P<count>\d{{1,2}}|\w+)\s+)??(?P<unit>{_UNIT})\s+(?:(?P<back>{_BEFORE_THAT})|(?P<on>{_AFTER_THAT}))
        |(?:(?P<previous>vorige[nmrs]?|vorherige[nmrs]?|vorangegangene[nmrs]?|previous|preceding)
            |(?P<next>nächste[nmrs]?|folgende[nmrs]?|darauffolgende[nmrs]?|next|following))\s+(?P<unit2>{_UNIT})
        |vor(?P<before>tag|woche|monat|jahr|saison)|folge(?P<after>tag|woche|monat|jahr|saison)
    ){_END}""",
    re.IGNORECASE | re.VERBOSE,
)
_BARE = re.compile(rf"^\W*(?:(?P<back>{_BEFORE_THAT})|(?P<on>{_AFTER_THAT}))\W*$", re.IGNORECASE)


@dataclass(frozen=True)
class Shift:
    """How far a date lies from another one.

    start, end: characters of the text that say it
    unit: None: one of the other date's own kind
    """

    start: int
    end: int
    unit: Unit | None
    steps: int


def shift_in(text: str) -> Shift | None:
    """Return what a text says of another date by its distance from it; None where it says nothing.

    >>> shift_in("in der Saison davor?")
    Shift(start=0, end=19, unit='season', steps=-1)
    >>> shift_in("two years later?").steps, shift_in("davor?").unit, shift_in("the day before the final")
    (2, None, None)
    """
    bare = _BARE.match(text)
    if bare:
        return Shift(0, len(text.rstrip(" ?.!")), None, -1 if bare["back"] else 1)
    found = _STEP.search(text)
    if found is None:
        return None
    if not found["unit"] and words(text[: found.start()] + text[found.end() :]):
        return None  # "what is planned for the next year": from today on
    unit = _unit(found["unit"] or found["unit2"] or found["before"] or found["after"])
    steps = _count(found["count"])
    is_back = bool(found["back"] or found["previous"] or found["before"])
    start = found.start("count") if steps is None and found["count"] else found.start()
    if steps is None:  # a word before the unit that is no number: "which year before"
        return None
    return Shift(start, found.end(), unit, -steps if is_back else steps)


def shift_date(one: Dated, shift: Shift, language: Language) -> str | None:
    """Return the date that lies so far from another, written out; None where that cannot be told.

    >>> season = Dated("season", "2021/22", 0, 7, date(2021, 7, 1), date(2022, 6, 30))
    >>> shift_date(season, Shift(0, 1, "year", 2), "en")
    '2023/24'
    >>> day = Dated("day", "gestern", 0, 7, date(2023, 11, 1), date(2023, 11, 1))
    >>> shift_date(day, Shift(0, 1, None, -1), "de")
    'am 31. Oktober 2023'
    """
    if one.first is None or one.last is None:
        return None
    own = _own_unit(one)
    unit, steps = shift.unit or own, shift.steps
    if unit == "year" and own == "season":
        unit = "season"
    elif unit == "week" and own == "day":
        unit, steps = "day", 7 * steps
    elif unit == "week" and own != "week":
        return None
    try:
        return _written(one, unit, steps, language, bare=own == unit and one.text[:1].isdigit())
    except (ValueError, OverflowError):
        return None


def _own_unit(one: Dated) -> Unit | None:
    if one.first is None or one.last is None:
        return None
    if one.kind in {"day", "month", "year", "season"}:
        return one.kind
    return "week" if (one.last - one.first).days == 6 else None


def _written(one: Dated, unit: Unit | None, steps: int, language: Language, *, bare: bool) -> str | None:
    """Return the shifted date with its preposition; without one in the place of a date that is digits."""
    first, last = one.first, one.last
    if first is None or last is None or unit is None:
        return None
    is_german, lead = language == "de", ""
    if unit == "day":
        day = (first if steps < 0 else last) + timedelta(days=steps)
        lead, text = "am " if is_german else "on ", _day(day, is_german)
    elif unit == "week":
        first, last = first + timedelta(days=7 * steps), last + timedelta(days=7 * steps)
        text = (
            f"vom {_range(first, last, is_german)}" if is_german else f"from {_range(first, last, is_german)}"
        )
    elif unit == "month":
        month = first.year * 12 + first.month - 1 + steps
        lead = "im " if is_german else "in "
        text = f"{_month(month % 12 + 1, is_german)} {month // 12}"
    elif unit == "season":
        begin = (first.year if first.month >= 7 else first.year - 1) + steps
        text = f"{begin}/{(begin + 1) % 100:02}"
        lead = "in der Saison " if is_german else "in "
    else:
        lead, text = "im Jahr " if is_german else "in ", str(first.year + steps)
    return text if bare else lead + text


def _day(day: date, is_german: bool) -> str:
    return f"{day.day}{'.' if is_german else ''} {_month(day.month, is_german)} {day.year}"


def _range(first: date, last: date, is_german: bool) -> str:
    point, to = (".", "bis") if is_german else ("", "to")
    month = "" if first.month == last.month else f" {_month(first.month, is_german)}"
    return f"{first.day}{point}{month} {to} {_day(last, is_german)}"


def _month(number: int, is_german: bool) -> str:
    return _MONTHS["de" if is_german else "en"][number - 1]


_MONTHS = {
    "en": (
        *("January", "February", "March", "April", "May", "June"),
        *("July", "August", "September", "October", "November", "December"),
    ),
    "de": (
        *("Januar", "Februar", "März", "April", "Mai", "Juni"),
        *("Juli", "August", "September", "Oktober", "November", "Dezember"),
    ),
}


def _unit(text: str) -> Unit:
    return next(unit for unit, words in _UNITS.items() if re.fullmatch(words, text, re.IGNORECASE))


def _count(text: str | None) -> int | None:
    if text is None:
        return 1
    return int(text) if text.isdecimal() else numbered("calendar", "numbers").get(text.casefold())
