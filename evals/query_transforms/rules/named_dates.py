"""Finds dates and periods in German or English text, as first and last day: months, seasons, quarters,
decades, "1 to 5 March 2023". For follow-ups ("und davor?") the earlier date and the step make another one.

Seasons of the year are the meteorological ones of the northern half: summer is June to August, the winter of
2021 is December 2021 to February 2022. A sports season ("last season") is the year from 1 July.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cache
from typing import Literal, NamedTuple, cast

from rag_assay.evals.retrieval.question_words import MAX_READ, Language, words
from rag_assay.evals.word_lists import alternation, groups, numbered, table

Unit = Literal["day", "week", "month", "year", "season"]

_EARLIER = r"davor|zuvor|vorher|früher|before|earlier|prior"
_LATER = r"danach|darauf|später|after|later|afterwards"
_ANY_UNIT = (
    r"tage?n?|days?|wochen?|weeks?|monate?n?s?|months?|jahre?n?s?|years?|saisons?|spielzeiten?|seasons?"
)
_END = r"(?=\s*(?:$|[?.!,;]))"
_BEFORE_THAT = rf"(?:{_EARLIER})(?:\s+(?:that|this|then))?"
_AFTER_THAT = rf"(?:{_LATER})(?:\s+(?:that|this|then))?"
_LED = r"(?:(?:am|an dem|im|in dem|in der|in den|in|on|at)\s+)?(?:(?:die|der|das|den|dem|the)\s+)?"
_STEP = rf"""(?ix)\b(?P<led>{_LED})(?:
        (?:(?P<count>\d{{1,2}}|\w+)\s+)??(?P<unit>{_ANY_UNIT})\s+(?:(?P<back>{_BEFORE_THAT})|(?P<on>{_AFTER_THAT}))
        |(?:(?P<previous>vorige[nmrs]?|vorherige[nmrs]?|vorangegangene[nmrs]?|previous|preceding)
            |(?P<next>nächste[nmrs]?|folgende[nmrs]?|darauffolgende[nmrs]?|next|following))\s+(?P<unit2>{_ANY_UNIT})
        |vor(?P<before>tag|woche|monat|jahr|saison)|folge(?P<after>tag|woche|monat|jahr|saison)
    ){_END}"""
_BARE = rf"(?i)^\W*(?:(?P<back>{_BEFORE_THAT})|(?P<on>{_AFTER_THAT}))\W*$"


@dataclass(frozen=True)
class Shift:
    """How far a date lies from another one; ``unit`` None: the other date's own."""

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
    bare = re.match(_BARE, text)
    if bare:
        return Shift(0, len(text.rstrip(" ?.!")), None, -1 if bare["back"] else 1)
    found = re.search(_STEP, text)
    if found is None:
        return None
    if not found["unit"] and words(text[: found.start()] + text[found.end() :]):
        return None  # "what is planned for the next year": from today on
    unit = _unit(found["unit"] or found["unit2"] or found["before"] or found["after"])
    steps = _steps_of(found["count"])
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
    first, last = one.first, one.last
    if first is None or last is None:
        return None
    own: Unit | None = "week" if (last - first).days == 6 else None
    if one.kind in {"day", "month", "year", "season"}:
        own = cast("Unit", one.kind)
    unit, steps = shift.unit or own, shift.steps
    if unit == "year" and own == "season":
        unit = "season"
    elif unit == "week" and own == "day":
        unit, steps = "day", 7 * steps
    if unit is None or (unit == "week" and own != "week"):
        return None
    try:
        return _written((first, last), unit, steps, language, bare=own == unit and one.text[:1].isdigit())
    except (ValueError, OverflowError):
        return None


def _written(days: Days, unit: Unit, steps: int, language: Language, *, bare: bool) -> str:
    first, last = days
    is_german, lead = language == "de", ""
    if unit == "day":
        day = (first if steps < 0 else last) + timedelta(days=steps)
        lead, text = "am " if is_german else "on ", _write_day(day, is_german)
    elif unit == "week":
        first, last = first + timedelta(days=7 * steps), last + timedelta(days=7 * steps)
        text = f"{'vom' if is_german else 'from'} {_range(first, last, is_german)}"
    elif unit == "month":
        month = first.year * 12 + first.month - 1 + steps
        lead = "im " if is_german else "in "
        text = f"{_write_month(month % 12 + 1, is_german)} {month // 12}"
    elif unit == "season":
        begin = (first.year if first.month >= 7 else first.year - 1) + steps
        text = f"{begin}/{(begin + 1) % 100:02}"
        lead = "in der Saison " if is_german else "in "
    else:
        lead, text = "im Jahr " if is_german else "in ", str(first.year + steps)
    return text if bare else lead + text


def _write_day(day: date, is_german: bool) -> str:
    return f"{day.day}{'.' if is_german else ''} {_write_month(day.month, is_german)} {day.year}"


def _range(first: date, last: date, is_german: bool) -> str:
    point, to = (".", "bis") if is_german else ("", "to")
    month = "" if first.month == last.month else f" {_write_month(first.month, is_german)}"
    return f"{first.day}{point}{month} {to} {_write_day(last, is_german)}"


def _write_month(number: int, is_german: bool) -> str:
    names = groups("calendar", "german" if is_german else "english")["months"][str(number)]
    return str(names.split()[0]).capitalize()


def _steps_of(text: str | None) -> int | None:
    if text is None:
        return 1
    return int(text) if text.isdecimal() else numbered("calendar", "numbers").get(text.casefold())


MOST = 20  # dates that are read off one text
_QUANTITIES = "euro|%|mw|gwh|kg|crowns|zuschauer"  # behind a number that is no year
_YEAR = r"(?:1[89]|20)\d\d"
_ORDINAL = r"(first|1st|second|2nd|third|3rd|fourth|4th|(?:erst|zweit|dritt|viert)e[nmrs]?|[1-4](?=\.))\.?"
_OF = r"(?:\s+(?:of|in|des\s+jahres|im\s+jahr)\b)?"
_TO = r"\s*(?:–|-|to|until|till|through|bis(?:\s+zum)?|and|und)\s*(?:the\s+)?"
_DAY = r"(\d{1,2})(?:st|nd|rd|th)?\.?"
_UNIT = r"(?:days?|weeks?|months?|years?|tage?n?|wochen?|monate?n?|jahre?n?)"
Kind = Literal["day", "month", "year", "season", "lately", "period"]


class NotADateError(ValueError):
    """A day that no calendar has; its message says which."""


@dataclass(frozen=True)
class Dated:
    """A stretch of days that a text names.

    kind: day | month | year | season (of a sport, from July to June) | lately (a stretch that ends with the
        day of asking, or before this week) | period (a quarter, a summer, a decade, "1 to 5 March 2023")
    first, last: both included; None where the text names a day that does not exist, or one that cannot be
        told without knowing when the question was asked
    reason: why they are None
    """

    kind: Kind
    text: str
    start: int
    end: int
    first: date | None
    last: date | None
    reason: str | None = None


Days = tuple[date, date]


class _Span(NamedTuple):
    kind: Kind
    first: date
    last: date


def month_pattern() -> str:
    return "|".join(sorted(numbered("calendar", "months"), key=len, reverse=True))


def _last() -> str:
    return f"(?:{alternation('calendar', 'last')})"


def _this() -> str:
    return f"(?:{alternation('calendar', 'this')})"


@cache
def _patterns() -> list[tuple[str, re.Pattern[str]]]:
    month, season = month_pattern(), f"({'|'.join(numbered('calendar', 'seasons'))})"
    weekday = "|".join(numbered("calendar", "weekdays"))
    day_word, ago = alternation("calendar", "relative_days"), f"(?:{_last()}|{_this()})"
    count = rf"(?:\d{{1,3}}|{'|'.join(numbered('calendar', 'numbers'))})"
    written = (
        ("range", rf"(?<!\d){_DAY}(?:\s*({month}))?{_TO}{_DAY}\s*({month})\b,?\s+({_YEAR})(?!\d)"),
        ("range", rf"\b()({month}){_TO}()({month})\s+({_YEAR})(?!\d)"),
        ("quarter", rf"\b(?:Q([1-4])|{_ORDINAL}\s+quart(?:er|als?)){_OF}[\s/-]*({_YEAR})(?!\d)"),
        ("half", rf"\b{_ORDINAL}\s+(?:half|halbjahre?s?|jahreshälfte|hälfte){_OF}\s+({_YEAR})(?!\d)"),
        ("summer", rf"\b{season}s?{_OF}\s+({_YEAR})(?![\d/–-])"),
        ("decade", r"(?<![\w/.-])((?:1[89]|20)\d0)(?:s|er(?:n|[\s-]jahre?n?)?)\b"),
        ("last quarter", rf"\b(?:({_last()})|({_this()}))\s+quart(?:er|als?)\b"),
        ("last summer", rf"\b({_last()})\s+{season}s?\b"),
        ("last season", rf"\b(?:({_last()})|({_this()}))\s+(?:season|saison|spielzeit)\b"),
        ("last weekday", rf"\b{_last()}\s+({weekday})s?\b"),
        ("last weekend", rf"\b{_last()}\s+(?:weekend|wochenendes?)\b"),
        ("season", rf"(?<![\d/])({_YEAR})\s?[/–-]\s?((?:{_YEAR})|\d\d)(?![\d/]|-\d)"),
        ("season", r"(?:saison|spielzeit|season)\s+(\d\d)/(\d\d)(?![\d/])"),
        ("day", rf"(?<![\d/])({_YEAR})-(\d\d)-(\d\d)(?!\d)"),
        ("day", rf"(?<![\d.])(\d{{1,2}})\.\s?(\d{{1,2}})\.\s?((?:{_YEAR})|\d\d(?!\d))"),
        ("day", rf"(?<!\d)(\d{{1,2}})(?:st|nd|rd|th|\.)?\s+(?:of\s+)?({month})\b\.?(?:,?\s+({_YEAR}))?"),
        ("day", rf"\b({month})\b\.?\s+(\d{{1,2}})(?:st|nd|rd|th)?(?!\d)(?:,?\s+({_YEAR}))?"),
        ("month", rf"\b({month})\b\.?(?:,|\s+of)?\s+({_YEAR})(?![\d/])"),
        ("relative", rf"\b((?:{day_word}))\b"),
        ("ago", rf"\b(?:vor\s+({count})\s+({_UNIT})|({count})\s+({_UNIT})\s+ago)\b"),
        ("lately", rf"\b(?:the\s+|den\s+|der\s+)?{ago}\s+({count})\s+({_UNIT})\b"),
        ("last", rf"\b({ago})\s+(week|month|year|woche|monat|jahr)(?:e?s)?\b"),
        ("year", rf"(?<![\w/.-])({_YEAR})(?![\w/]|-\d|[.,]\d|\s?(?:{_QUANTITIES}))"),
    )
    return [(kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in written]


def day_of(text: str | None) -> date | None:
    """Return the day of an ISO 8601 date or time; None where there is none.

    >>> day_of("2024-02-29T18:42:00+02:00"), day_of("2024")
    (datetime.date(2024, 2, 29), None)
    """
    try:
        return date.fromisoformat(text[:10]) if text else None
    except ValueError:
        return None


def find_dates(text: str, asked_at: str | None = None) -> list[Dated]:
    """Return the dates of a text in their order; stretches of the text do not overlap.

    A day or month without its year, and words such as "yesterday", are read against ``asked_at``.
    """
    text = text[:MAX_READ]
    base = day_of(asked_at)
    taken = [False] * len(text)
    found: list[Dated] = []
    for kind, pattern in _patterns():
        for match in pattern.finditer(text):
            if len(found) >= MOST or any(taken[match.start() : match.end()]):
                continue
            dated = _read(kind, match, base)
            if dated is None:
                continue
            taken[match.start() : match.end()] = [True] * (match.end() - match.start())
            found.append(dated)
    return sorted(found, key=lambda one: one.start)


def _read(kind: str, match: re.Match[str], asked: date | None) -> Dated | None:
    place = (match.group(), match.start(), match.end())
    no_day = "cannot be told: the question has no `asked_at`"
    if asked is None and kind in _RELATIVE:
        return Dated("day", *place, None, None, f"{match.group()} {no_day}")
    today = asked or date(2000, 1, 1)
    try:
        found = _READERS[kind](match, today)
        span = _Span(_KINDS.get(kind, "period"), *found) if found and not isinstance(found, _Span) else found
    except NotADateError as error:
        return Dated("day", *place, None, None, str(error))
    except (ValueError, OverflowError):
        return Dated("day", *place, None, None, f"{match.group()} is not a date")
    if span and kind == "day" and asked is None and not _has_year(match):
        return Dated("day", *place, None, None, f"the year of {match.group()} {no_day}")
    return Dated(span.kind, *place, span.first, span.last) if span else None


def _season(match: re.Match[str], _today: date) -> _Span | None:
    begin = int(match[1]) if len(match[1]) == 4 else 2000 + int(match[1])
    if int(match[2]) % 100 != (begin + 1) % 100 or (len(match[2]) == 4 and int(match[2]) != begin + 1):
        return None  # two numbers with a slash, as in 2012/9061
    return _Span("season", date(begin, 7, 1), date(begin + 1, 6, 30))


def _has_year(match: re.Match[str]) -> bool:
    return re.search(rf"{_YEAR}|\.\s?\d\d$", match.group()) is not None


def _day(match: re.Match[str], today: date) -> _Span | None:
    if not _has_year(match) and re.search(r"\b(?:may|march|mar)\b", match.group()):
        return None  # "under Article 5 may a state …": a verb
    return _relative(match, today)


def _month(match: re.Match[str], _today: date) -> _Span:
    year, month = int(match[2]), numbered("calendar", "months")[match[1].lower()]
    return _Span("month", date(year, month, 1), date(year, month, monthrange(year, month)[1]))


def _year(match: re.Match[str], _today: date) -> _Span:
    return _Span("year", date(int(match[1]), 1, 1), date(int(match[1]), 12, 31))


def _relative(match: re.Match[str], today: date) -> _Span:
    import dateparser

    settings = {
        "RELATIVE_BASE": datetime(today.year, today.month, today.day),  # noqa: DTZ001 -- days have no zone
        "DATE_ORDER": "DMY",
        "PREFER_DATES_FROM": "past",
        "PREFER_DAY_OF_MONTH": "first",
    }
    text = " ".join(match.group().split())
    found = dateparser.parse(text, languages=["de", "en"], settings=settings)
    if found is None:
        raise NotADateError(f"{text} is not a date")
    return _Span("day", found.date(), found.date())


def _lately(match: re.Match[str], today: date) -> _Span:
    days = {"day": 1, "week": 7, "month": 30, "year": 365}[_unit(match[2])] * (_steps_of(match[1]) or 0)
    return _Span("lately", today - timedelta(days=days), today)


def _last_unit(match: re.Match[str], today: date) -> _Span:
    unit = _unit(match[2])

    def first_of(day: date) -> date:
        if unit == "week":
            return day - timedelta(days=day.weekday())
        return day.replace(day=1) if unit == "month" else day.replace(month=1, day=1)

    begin = first_of(today)
    if match[1].lower().startswith(("this", "dies")):
        return _Span("lately", begin, today)
    end = begin - timedelta(days=1)
    return _Span(unit if unit in ("month", "year") else "lately", first_of(end), end)


def _unit(text: str) -> Unit:
    begins = table("calendar", "units").items()
    return next(cast("Unit", unit) for begin, unit in begins if text.lower().startswith(begin))


def _from_to(match: re.Match[str], _base: date) -> Days | None:
    joined = match.group().casefold()
    if re.search(r"\s(?:and|und)\s", joined) and not re.search(
        r"\b(?:between|zwischen)(?:\s+(?:the|dem))?\s*$", match.string[: match.start()], re.IGNORECASE
    ):
        return None  # two days, not all from one to the other
    year, end_month = int(match[5]), numbered("calendar", "months")[match[4].casefold()]
    begin_month = numbered("calendar", "months")[match[2].casefold()] if match[2] else end_month
    begin_year = year - 1 if begin_month > end_month else year
    first = date(begin_year, begin_month, int(match[1] or 1))
    last = date(year, end_month, int(match[3] or monthrange(year, end_month)[1]))
    return (first, last) if first <= last else None


def _months(year: int, month: int, count: int) -> Days:
    end = year * 12 + month - 1 + count
    return date(year, month, 1), date(end // 12, end % 12 + 1, 1) - timedelta(days=1)


def _ordinal(text: str) -> int:
    plain = text.casefold()
    return next(
        number for begin, number in numbered("calendar", "ordinals").items() if plain.startswith(begin)
    )


def _quarter(match: re.Match[str], _base: date) -> Days:
    number = int(match[1]) if match[1] else _ordinal(match[2])
    return _months(int(match[3]), 3 * number - 2, 3)


def _half(match: re.Match[str], _base: date) -> Days | None:
    number = _ordinal(match[1])
    return _months(int(match[2]), 6 * number - 5, 6) if number <= 2 else None


def _summer(match: re.Match[str], _base: date) -> Days:
    return _months(int(match[2]), numbered("calendar", "seasons")[match[1].casefold()], 3)


def _decade(match: re.Match[str], _base: date) -> Days:
    return date(int(match[1]), 1, 1), date(int(match[1]) + 9, 12, 31)


def _last_quarter(match: re.Match[str], base: date) -> Days:
    begin = date(base.year, base.month - (base.month - 1) % 3, 1)
    if match[2]:
        return begin, base
    before = begin - timedelta(days=1)
    return _months(before.year, before.month - 2, 3)


def _last_summer(match: re.Match[str], base: date) -> Days:
    month = numbered("calendar", "seasons")[match[2].casefold()]
    found = (_months(base.year - back, month, 3) for back in range(3))
    return next(days for days in found if days[1] < base)


def _last_season(match: re.Match[str], base: date) -> Days:
    year = base.year if base.month >= 7 else base.year - 1
    year -= 1 if match[1] else 0
    return date(year, 7, 1), date(year + 1, 6, 30)


def _last_weekday(match: re.Match[str], base: date) -> Days:
    back = (base.weekday() - numbered("calendar", "weekdays")[match[1].casefold()] - 1) % 7 + 1
    day = base - timedelta(days=back)
    return day, day


def _last_weekend(_match: re.Match[str], base: date) -> Days:
    sunday = base - timedelta(days=base.weekday() + 1)
    return sunday - timedelta(days=1), sunday


_RELATIVE = frozenset(
    {"relative", "ago", "lately", "last"}
    | {"last quarter", "last summer", "last season", "last weekday", "last weekend"}
)
"""Kinds that are read against the day of asking."""
_KINDS: dict[str, Kind] = {"last season": "season", "last weekday": "day", "last weekend": "lately"}
_READERS: dict[str, Callable[[re.Match[str], date], _Span | Days | None]] = {
    **{"season": _season, "day": _day, "month": _month, "year": _year, "relative": _relative},
    **{"ago": _relative, "lately": _lately, "last": _last_unit, "range": _from_to, "quarter": _quarter},
    **{"half": _half, "summer": _summer, "decade": _decade, "last quarter": _last_quarter},
    **{"last summer": _last_summer, "last season": _last_season},
    **{"last weekday": _last_weekday, "last weekend": _last_weekend},
}
