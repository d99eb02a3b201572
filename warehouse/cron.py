"""Cron expressions: when something is done again."""

from __future__ import annotations

import re

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_FIELDS: tuple[tuple[int, int, list[str]], ...] = (
    (0, 59, []),  # minute
    (0, 23, []),  # hour
    (1, 31, []),  # day of the month
    (1, 12, ["", *_MONTHS]),
    (0, 7, _DAYS),  # day of the week; 0 and 7 are Sunday
)
_PART = re.compile(r"(\*|(?P<first>\w+)(-(?P<last>\w+))?)(/(?P<step>\d{1,2}))?")
_MOST_DAYS = {2: 29, 4: 30, 6: 30, 9: 30, 11: 30}


def is_cron(text: str) -> bool:
    """Say whether ``text`` is a cron expression of five fields that some day fulfils.

    A field is `*`, numbers or English names of months and days, ranges of them, lists of these, each with
    a step or without.

    >>> [is_cron(text) for text in ("0 5 * * 1", "*/15 8-18 * * mon-fri", "0 0 1,15 JAN *")]
    [True, True, True]
    >>> [is_cron(text) for text in ("every monday", "61 5 * * 1", "0 5 * *", "0 0 30 2 *")]
    [False, False, False, False]
    """
    fields = text.lower().split()
    if len(fields) != len(_FIELDS):
        return False
    if not all(_is_field(field, *bounds) for field, bounds in zip(fields, _FIELDS, strict=True)):
        return False
    day, month = fields[2], fields[3]
    number = _number(month, ["", *_MONTHS])
    return not (day.isdecimal() and number is not None and int(day) > _MOST_DAYS.get(number, 31))


def _is_field(field: str, low: int, high: int, names: list[str]) -> bool:
    return all(_is_part(part, low, high, names) for part in field.split(","))


def _is_part(part: str, low: int, high: int, names: list[str]) -> bool:
    found = _PART.fullmatch(part)
    if found is None or (found["step"] is not None and not 1 <= int(found["step"]) <= high):
        return False
    if found["first"] is None:
        return True
    first = _number(found["first"], names)
    last = first if found["last"] is None else _number(found["last"], names)
    return first is not None and last is not None and low <= first <= last <= high


def _number(text: str, names: list[str]) -> int | None:
    """Return what a number or name stands for, None for anything else."""
    if text in names:
        return names.index(text)
    return int(text) if re.fullmatch("[0-9]{1,2}", text) else None
