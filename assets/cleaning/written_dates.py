"""Dates that a text writes out, with the names of months in the languages of EUR-Lex."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rag_assay.assets.cleaning.blocks import PageBlock
from rag_assay.warehouse.iso_dates import iso, iso_day

_WRITTEN = re.compile(
    r"\b(?P<day>\d{1,2})(?:\.|st|nd|rd|th|er|º)?\s+(?:de\s+)?(?P<month>[^\W\d_]{3,10})\.?,?\s+(?:de\s+)?"
    r"(?P<year>\d{4})\b"
)
_MONTH_FIRST = re.compile(
    r"\b(?P<month>[A-Z][a-z]{2,8})\.?\s+(?P<day>\d{1,2})(?:st|nd|rd|th)?,?\s+(?P<year>\d{4})\b"
)
_NUMBERS = re.compile(
    r"(?<![\d./-])(?:\d{4}-\d\d-\d\d|\d{1,2}\.\s?\d{1,2}\.\s?(?:\d{4}|\d\d)|\d{1,2}/\d{1,2}/\d{4})(?![\d-])"
)
_SHORT_YEAR = re.compile(r"(\d\.\s?)(\d\d)$")
_DATELINE = 12  # words of a line that gives the date
_PARAGRAPH = 25  # words of a paragraph that is no line of its own
_PUBLISHED = re.compile(r"\b(?:posted|published|written|veröffentlicht|erschienen|publié|publicado)\b", re.I)
_OTHER_DAY = re.compile(
    r"\b(?:\w*updated|modified|changed|revised|generated|built|copyright|geändert|aktualisiert)\b|©", re.I
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
    return next(filter(None, map(_read, _WRITTEN.finditer(text))), None)


def _read(found: re.Match[str]) -> str | None:
    name = found["month"].lower()
    month = _MONTHS.get(name) or next((at for word, at in _MONTHS.items() if word[:3] == name), None)
    return iso_day(found["year"], month, found["day"]) if month else None


def shown_date(blocks: Sequence[PageBlock]) -> str | None:
    """Return the day that a page shows as that of its publication, in ISO 8601: a line that says so (`Posted
    1 March 2015`), or hardly more than a date, above the second long paragraph. Not a day of the last change,
    nor one in code.
    """
    long = 0
    is_titled = False
    for block in blocks:
        is_titled = is_titled or block.kind == "heading"
        long += is_titled and block.kind in {"text", "quote"} and len(block.words) >= _PARAGRAPH
        if len(block.words) > _DATELINE or block.kind == "code" or _OTHER_DAY.search(block.text):
            continue
        if (long > 1 or block.kind not in {"text", "item"}) and not _PUBLISHED.search(block.text):
            continue
        days = (
            iso(_SHORT_YEAR.sub(r"\g<1>20\2", found[0])) if pattern is _NUMBERS else _read(found)
            for pattern in (_NUMBERS, _WRITTEN, _MONTH_FIRST)
            for found in pattern.finditer(block.text)
        )
        if day := next(filter(None, days), None):
            return day
    return None
