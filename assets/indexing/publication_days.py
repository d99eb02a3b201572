"""Publication dates as comparable times; a date without a day counts from its first moment."""

from __future__ import annotations

import re
from datetime import datetime

_ISO = re.compile(
    r"(?P<year>\d{4})"
    r"(?:-(?P<month>\d{2})(?:-(?P<day>\d{2}))?|(?P<month2>\d{2})(?P<day2>\d{2}))?"
    r"(?:[T ](?P<hour>\d{2}):?(?P<minute>\d{2})(?::?(?P<second>\d{2})(?:[.,]\d+)?)?)?"
    r"\s*(?:Z|z|UTC|GMT|[+-]\d{2}(?::?\d{2})?)?"
)


def moment(text: str | None) -> datetime | None:
    """Return the moment that an ISO 8601 date or time names, or None for what names none.

    A partial date is its first day. The time zone is left out, not converted: an article of half past
    midnight on 2 May is one of 2 May, wherever its readers are.

    >>> moment("2019-05"), moment("2019-05-02T00:30:00+02:00"), moment("soon")
    (datetime.datetime(2019, 5, 1, 0, 0), datetime.datetime(2019, 5, 2, 0, 30), None)
    """
    found = _ISO.fullmatch(text.strip()) if text else None
    if found is None:
        return None
    part = found.groupdict()
    numbers = [part["year"], part["month"] or part["month2"] or "1", part["day"] or part["day2"] or "1"]
    try:
        return datetime(*map(int, [*numbers, part["hour"] or 0, part["minute"] or 0, part["second"] or 0]))  # type: ignore[arg-type]  # noqa: DTZ001 -- the zone is left out on purpose
    except ValueError:  # the 31st of June
        return None
