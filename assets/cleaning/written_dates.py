"""Dates that a text writes out, with the names of months in the languages of EUR-Lex."""

from __future__ import annotations

import re
from datetime import date

_WRITTEN = re.compile(
    r"\b(\d{1,2})(?:\.|st|nd|rd|th|er|º)?\s+(?:de\s+)?([^\W\d_]{3,10})\.?\s+(?:de\s+)?(\d{4})\b"
)
_MONTHS = {
    word: number
    for number, names in enumerate(
        (
            "january januar janvier enero gennaio januari jänner",
            "february februar février febrero febbraio februari",
            "march märz mars marzo maart", "april avril abril aprile", "may mai mayo maggio mei",
            "june juni juin junio giugno", "july juli juillet julio luglio",
            "august août agosto augustus", "september septembre septiembre settembre",
            "october oktober octobre octubre ottobre", "november novembre noviembre",
            "december dezember décembre diciembre dicembre",
        ),
        1,
    )
    for word in names.split()
}  # fmt: skip


def written_date(text: str) -> str | None:
    """Return the first date that a text writes out, in ISO 8601.

    >>> written_date("Richtlinie 2009/73/EG vom 13. Juli 2009"), written_date("of 1 April 2004")
    ('2009-07-13', '2004-04-01')
    """
    for found in _WRITTEN.finditer(text):
        month = _MONTHS.get(found[2].lower())
        if month and (day := iso_day(found[3], month, found[1])):
            return day
    return None


def iso_day(year: str, month: int | str, day: str) -> str | None:
    """Return a day in ISO 8601; None where no calendar has it.

    >>> iso_day("2009", 7, "13"), iso_day("2009", "2", "30")
    ('2009-07-13', None)
    """
    try:
        return date(int(year), int(month), int(day)).isoformat()
    except ValueError:
        return None
