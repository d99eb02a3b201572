"""Reads dates of pages and files as ISO 8601."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, date, datetime
from email.utils import parsedate_to_datetime
from typing import Any

Node = dict[str, Any]

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")
# Each is tried at one place of a stripped text, and only there: a page of blanks must not take hours.
_OPENING = re.compile(r"(?:<!--|/\*\s*<!\[CDATA\[\s*\*/|//\s*<!\[CDATA\[|<!\[CDATA\[)")
_CLOSING = re.compile(r"(?:-->|/\*\s{0,9}\]\]>\s{0,9}\*/|//\s{0,9}\]\]>|\]\]>)\Z")
_CLOSING_LENGTH = 40


def nodes_in(text: str, *through: str) -> list[Node]:
    """Return the nodes of one block, lists and what stands below the keys ``through`` unfolded.

    >>> [node["@type"] for node in nodes_in('{"@type": "Web", "@graph": [{"@type": "Article"},]};', "@graph")]
    ['Web', 'Article']
    """
    try:
        return list(_unfolded(lenient_json(text), through))
    except RecursionError:
        return []


def lenient_json(text: str) -> Any:
    """Return the value of JSON as pages write it, or None.

    >>> lenient_json('<!-- {"a": [1, 2,],} -->')
    {'a': [1, 2]}
    """
    bare = _bare(_bare(text))
    for attempt in (bare, _TRAILING_COMMA.sub(r"\1", _CONTROL.sub(" ", bare))):
        try:
            return json.loads(attempt, strict=False)
        except (ValueError, RecursionError):
            continue
    return None


def _bare(text: str) -> str:
    bare = text.strip().rstrip("; \t\r\n")
    if opening := _OPENING.match(bare):
        bare = bare[opening.end() :]
    if closing := _CLOSING.search(bare, max(0, len(bare) - _CLOSING_LENGTH)):
        bare = bare[: closing.start()]
    return bare.strip().rstrip("; \t\r\n")


def _unfolded(value: Any, through: tuple[str, ...]) -> Iterator[Node]:
    if isinstance(value, list):
        for item in value:
            yield from _unfolded(item, through)
    elif isinstance(value, dict):
        yield value
        for name in through:
            yield from _unfolded(value.get(name), through)


def strings(value: Any) -> list[str]:
    """Return the strings of a JSON-LD value: itself, its items, or what its `name` says.

    >>> strings(["Ada", {"@type": "Person", "name": "Ben"}, {"url": "x"}, None])
    ['Ada', 'Ben']
    """
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for item in value for text in strings(item)]
    return strings(value.get("name")) if isinstance(value, dict) else []


def texts_in(value: Any) -> list[str]:
    """Return what `strings` does, stripped and without empty ones."""
    return [text for one in strings(value) if (text := one.strip())]


_DOTS = re.compile(r"\b(\d{1,2})\.\s?(\d{1,2})\.\s?(\d{4})\b")
_SLASHES = re.compile(r"\b(\d{1,2})/(\d{1,2})/(\d{4})\b")
_JAVA = re.compile(r"[A-Z][a-z]{2} ([A-Z][a-z]{2}) (\d{1,2}) (\d\d:\d\d:\d\d) (\w+) (\d{4})")
_MONTHS = {
    name: n
    for n, name in enumerate(
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"], 1
    )
}
_ZONES = {"CET": "+01:00", "CEST": "+02:00", "GMT": "+00:00", "UTC": "+00:00", "BST": "+01:00"}


def first_iso(*candidates: Any, day_first: bool = False) -> str | None:
    """Return the first date or time among the candidates (strings, JSON-LD values) in ISO 8601.

    >>> first_iso(None, ["soon", "28.04.2023"], "2024-01-01")
    '2023-04-28'
    """
    texts = (text for candidate in candidates for text in strings(candidate))
    return next((found for text in texts if (found := iso(text.strip(), day_first=day_first))), None)


def iso(text: str, *, day_first: bool = False) -> str | None:
    """Return a date or time in ISO 8601, with its own precision; None if there is none. ``day_first``:
    5/6/2022 is the 5th of June; unless that is known it is no date.

    >>> iso("2024-05-03T14:24:00Z"), iso("28.04.2023"), iso("Fri Apr 28 19:20:36 CEST 2023")
    ('2024-05-03T14:24:00+00:00', '2023-04-28', '2023-04-28T19:20:36+02:00')
    >>> iso("24/05/2022; Date of signature"), iso("05/24/2022"), iso("5/6/2022"), iso("99/99/9999")
    ('2022-05-24', '2022-05-24', None, None)
    """
    java = _JAVA.fullmatch(text)
    if java and java[1] in _MONTHS:
        text = f"{java[5]}-{_MONTHS[java[1]]:02d}-{int(java[2]):02d}T{java[3]}{_ZONES.get(java[4], '')}"
    text = re.sub(r"(?<=\d) (?=[+-]\d\d:?\d\d$)", "", text)
    try:
        if len(text) == 10:
            return date.fromisoformat(text).isoformat()
        return datetime.fromisoformat(text).isoformat()
    except ValueError:
        return _numeric(text, day_first)


def _numeric(text: str, day_first: bool) -> str | None:
    if dots := _DOTS.search(text):
        return iso_day(dots[3], dots[2], dots[1])
    slashes = _SLASHES.search(text)
    if slashes is None:
        return None
    readings = {iso_day(slashes[3], slashes[2], slashes[1])}
    if not day_first:
        readings.add(iso_day(slashes[3], slashes[1], slashes[2]))
    sure = readings - {None}
    return sure.pop() if len(sure) == 1 else None


def iso_day(year: str, month: int | str, day: str) -> str | None:
    """Return a day in ISO 8601; None where no calendar has it.

    >>> iso_day("2009", 7, "13"), iso_day("2009", "2", "30")
    ('2009-07-13', None)
    """
    try:
        return date(int(year), int(month), int(day)).isoformat()
    except ValueError:
        return None


def retry_after(value: str | None) -> float | None:
    """Return the seconds that a `Retry-After` header says, by number or date; None: it says nothing of use.

    >>> [retry_after(value) for value in ("2.5", "-1", "nan", "soon", "Fri, 31 Dec 1999 23:59:59 GMT")]
    [2.5, 0.0, None, None, 0.0]
    """
    if not value:
        return None
    with suppress(ValueError):
        seconds = float(value)
        return None if math.isnan(seconds) else max(0.0, seconds)
    with suppress(ValueError, TypeError, OverflowError):
        then = parsedate_to_datetime(value)
        then = then if then.tzinfo else then.replace(tzinfo=UTC)
        return max(0.0, (then - datetime.now(UTC)).total_seconds())
    return None
