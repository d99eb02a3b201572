"""Reads periods and ranges: quarters, halves, seasons, decades, "1 to 5 March 2023".

Seasons of the year are the meteorological ones of the northern half: summer is June to August, the winter of
2021 is December 2021 to February 2022. A sports season ("last season") is the year from 1 July.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from datetime import date, timedelta
from functools import cache

from rag_assay.evals.word_lists import alternation, numbered

Days = tuple[date, date]
YEAR = r"(?:1[89]|20)\d\d"
_ORDINAL = r"(first|1st|second|2nd|third|3rd|fourth|4th|(?:erst|zweit|dritt|viert)e[nmrs]?|[1-4](?=\.))\.?"
_OF = r"(?:\s+(?:of|in|des\s+jahres|im\s+jahr)\b)?"
_TO = r"\s*(?:–|-|to|until|till|through|bis(?:\s+zum)?|and|und)\s*(?:the\s+)?"
_DAY = r"(\d{1,2})(?:st|nd|rd|th)?\.?"
RELATIVE = frozenset({"last quarter", "last summer", "last season", "last weekday", "last weekend"})
"""Kinds that are read against the day of asking."""


def months() -> dict[str, int]:
    return numbered("calendar", "months")


@cache
def month_pattern() -> str:
    return "|".join(sorted(months(), key=len, reverse=True))


def last() -> str:
    return f"(?:{alternation('calendar', 'last')})"


def this() -> str:
    return f"(?:{alternation('calendar', 'this')})"


@cache
def patterns() -> tuple[tuple[str, str], ...]:
    month, season = month_pattern(), f"({'|'.join(numbered('calendar', 'seasons'))})"
    weekday = "|".join(numbered("calendar", "weekdays"))
    return (
        ("range", rf"(?<!\d){_DAY}(?:\s*({month}))?{_TO}{_DAY}\s*({month})\b,?\s+({YEAR})(?!\d)"),
        ("range", rf"\b()({month}){_TO}()({month})\s+({YEAR})(?!\d)"),
        ("quarter", rf"\b(?:Q([1-4])|{_ORDINAL}\s+quart(?:er|als?)){_OF}[\s/-]*({YEAR})(?!\d)"),
        ("half", rf"\b{_ORDINAL}\s+(?:half|halbjahre?s?|jahreshälfte|hälfte){_OF}\s+({YEAR})(?!\d)"),
        ("summer", rf"\b{season}s?{_OF}\s+({YEAR})(?![\d/–-])"),
        ("decade", r"(?<![\w/.-])((?:1[89]|20)\d0)(?:s|er(?:n|[\s-]jahre?n?)?)\b"),
        ("last quarter", rf"\b(?:({last()})|({this()}))\s+quart(?:er|als?)\b"),
        ("last summer", rf"\b({last()})\s+{season}s?\b"),
        ("last season", rf"\b(?:({last()})|({this()}))\s+(?:season|saison|spielzeit)\b"),
        ("last weekday", rf"\b{last()}\s+({weekday})s?\b"),
        ("last weekend", rf"\b{last()}\s+(?:weekend|wochenendes?)\b"),
    )


def read(kind: str, match: re.Match[str], base: date) -> Days | None:
    return _READERS[kind](match, base)


def _range(match: re.Match[str], _base: date) -> Days | None:
    joined = match.group().casefold()
    if re.search(r"\s(?:and|und)\s", joined) and not re.search(
        r"\b(?:between|zwischen)(?:\s+(?:the|dem))?\s*$", match.string[: match.start()], re.IGNORECASE
    ):
        return None  # two days, not all from one to the other
    year, end_month = int(match[5]), months()[match[4].casefold()]
    begin_month = months()[match[2].casefold()] if match[2] else end_month
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


_READERS: dict[str, Callable[[re.Match[str], date], Days | None]] = {
    "range": _range,
    "quarter": _quarter,
    "half": _half,
    "summer": _summer,
    "decade": _decade,
    "last quarter": _last_quarter,
    "last summer": _last_summer,
    "last season": _last_season,
    "last weekday": _last_weekday,
    "last weekend": _last_weekend,
}
