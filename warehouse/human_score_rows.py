"""A line of a file of scores, read into a row: what makes it none is said, not raised."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from rag_assay.warehouse.annotation_schemas import HUMAN_SCORES
from rag_assay.warehouse.encodable import encodable

Row = dict[str, Any]
STANDINGS = ("ok", "withdrawn", "skipped")
_DEFAULTS = {"status": "ok", "showing": 1, "place": "page"}
LARGEST = 1e300  # a NaN is no number either
MOST = 2**31  # showings and positions are far below
LONGEST = 80  # characters of a wrong value that a reason repeats


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_text(value: object) -> bool:
    return value is None or isinstance(value, str)


def _is_number(value: object) -> bool:
    # An integer of a thousand digits is none that a column can hold.
    return value is None or (
        isinstance(value, int | float) and not isinstance(value, bool) and -LARGEST < value < LARGEST
    )


def _is_count(value: object) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool) and 0 < value < MOST)


def _is_time(value: object) -> bool:
    return isinstance(value, str) and _time(value) is not None


_CHECKS: Mapping[str, tuple[Callable[[object], bool], str]] = {
    **dict.fromkeys(("score_id", "annotator", "item_id", "rubric", "rubric_version"), (_is_name, "a text")),
    **dict.fromkeys(("criterion", "comment", "queue_version", "cell", "question_id"), (_is_text, "a text")),
    **dict.fromkeys(("study", "place"), (_is_text, "a text")),
    **dict.fromkeys(("value", "seconds"), (_is_number, "a number")),
    **dict.fromkeys(("showing", "position"), (_is_count, "a whole number from 1")),
    "scored_at": (_is_time, "a time (ISO 8601)"),
    "status": (lambda value: value in STANDINGS, f"one of {', '.join(STANDINGS)}"),
}


def why_not(record: Mapping[str, Any] | None) -> str | None:
    """Return why a line is no score; None: it is one.

    >>> why_not({"score_id": "a"})
    'its `annotator` is not a text: None'
    """
    if record is None:
        return "it is torn, or no JSON object"
    for column, (is_right, wanted) in _CHECKS.items():
        value = record.get(column, "ok" if column == "status" else None)
        if not is_right(value):
            return f"its `{column}` is not {wanted}: {_shown(value)}"
    given, standing = record.get("value"), record.get("status", "ok")
    if (given is not None) != (standing == "ok"):
        return f"its status is {standing}, and its value {given}"
    return None


def _shown(value: object) -> str:
    with suppress(ValueError):  # an integer of thousands of digits has no text
        text = repr(value)
        return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
    return "a number that is too long"


def row_of(record: Mapping[str, Any], study: str) -> Row:
    """Return a line that is a score as a row of `HUMAN_SCORES`, its time in UTC.

    study: whose folder it lies in; a study that was renamed takes its scores along with the folder
    """
    row: Row = {column: record.get(column) for column in HUMAN_SCORES}
    for name, value in row.items():
        if isinstance(value, str):
            row[name] = encodable(value)
        elif name in {"value", "seconds"} and value is not None:
            row[name] = float(value)
    row["scored_at"] = _time(str(record["scored_at"]))
    row["study"] = study
    for name, default in _DEFAULTS.items():
        row[name] = row[name] or default
    return row


def _time(text: str) -> datetime | None:
    with suppress(ValueError, OverflowError):
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
    return None
