"""What stands in a sheet that came back, before anything of it is believed."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta

from rag_assay.evals.human.spreadsheets.heading import SheetHeading
from rag_assay.evals.human.spreadsheets.rating_base import Asked, RatingEntry
from rag_assay.evals.human.spreadsheets.table import SKIP, number
from rag_assay.evals.rubrics.rubric import Criterion
from rag_assay.evals.spreadsheet_import.workbook import UnusableCell
from rag_assay.warehouse.human_scores import LONGEST_TEXT

_SKIPS = frozenset({SKIP, "skipped", f"{SKIP}: you cannot say"})
_NUMBER = re.compile(r"[-+]?(?:\d+(?:[.,]\d*)?|[.,]\d+)(?:[eE][-+]?\d{1,3})?")
_LONGEST_SHOWN = 40


@dataclass(frozen=True)
class FilledRow:
    """A row that came back.

    place: `FILE:LINE`
    token: names the item and its showing
    texts: what stands in columns of texts, by their names; of those columns that are there
    scores: what stands in columns of scores, as it was read; of those columns that are there
    comment: None where there is no column for it
    annotator: who filled it in; None: whose the sheet is
    skipped: whether all of it was passed over
    """

    place: str
    token: str
    texts: Mapping[str, str] = field(default_factory=dict)
    scores: Mapping[Asked, object] = field(default_factory=dict)
    comment: object = None
    annotator: str | None = None
    seconds: float | None = None
    scored_at: datetime | None = None


@dataclass(frozen=True)
class Filled:
    """A sheet that came back.

    rejects: rows that cannot even be read, as `FILE:LINE: reason`
    notes: what else a person should know
    """

    heading: SheetHeading
    rows: Sequence[FilledRow]
    rejects: Sequence[str] = ()
    notes: Sequence[str] = ()


def read_entry(value: object, criterion: Criterion, *, compares: bool = False) -> RatingEntry | None:
    """Return what a cell says by a criterion; None where it is empty.

    A number may be text, with a decimal comma; the words of an anchor stand for its value, and TRUE and
    FALSE for 1 and 0. Of a pair, `left` and `first` stand for the highest value, `right` and `second` for
    the lowest.

    Raises:
        ValueError: it says nothing that the criterion knows; the message says why.
    """
    if isinstance(value, UnusableCell):
        raise ValueError(value.reason)  # noqa: TRY004 -- what a person wrote
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, str) and value.strip().casefold() in _SKIPS:
        return RatingEntry("skipped")
    if isinstance(value, date | datetime | time | timedelta):
        raise ValueError(f"a date or time ({value}) where a value is wanted; {_wanted(criterion)}")  # noqa: TRY004
    said = _side(value, criterion) if compares else None
    said = _number(value, criterion) if said is None else said
    for anchor in criterion.anchors:
        if said is not None and math.isclose(anchor, said, rel_tol=1e-9, abs_tol=1e-12):
            return RatingEntry("ok", anchor)
    if isinstance(value, str) and value.lstrip().startswith("="):
        raise ValueError(f"a formula where a value is wanted; {_wanted(criterion)}")
    shown = " ".join(str(value).split())
    shown = shown if len(shown) <= _LONGEST_SHOWN else shown[:_LONGEST_SHOWN] + "…"
    raise ValueError(f"`{shown}` is no value of it; {_wanted(criterion)}")


def read_comment(value: object) -> str:
    """Return the text of a cell of comments.

    Raises:
        ValueError: it cannot be read; the message says why.
    """
    if isinstance(value, UnusableCell):
        raise ValueError(value.reason)  # noqa: TRY004 -- what a person wrote
    if value is None:
        return ""
    text = number(value) if isinstance(value, float) else str(value).strip()
    if len(text) > LONGEST_TEXT:
        raise ValueError(f"{len(text):,} characters; a comment has at most {LONGEST_TEXT:,}")
    return text


def _number(value: object, criterion: Criterion) -> float | None:
    """Return the number that a cell means, if it means one."""
    is_binary = set(criterion.anchors) == {0.0, 1.0}
    if isinstance(value, bool):
        return float(value) if is_binary else None
    if isinstance(value, int | float):
        return _finite(value)
    plain = str(value).strip()
    if is_binary and plain.casefold() in {"true", "false"}:
        return float(plain.casefold() == "true")
    if _NUMBER.fullmatch(plain):
        return _finite(plain.replace(",", "."))
    words = [
        anchor
        for anchor, text in criterion.anchors.items()
        if any(_same_words(one, plain) for one in (text, f"{number(anchor)}: {text}"))
    ]
    return words[0] if len(words) == 1 else None


def _side(value: object, criterion: Criterion) -> float | None:
    """Return the value of a side of a pair, as it is shown."""
    low, high = criterion.bounds
    sides = {"left": high, "first": high, "right": low, "second": low, "none": (low + high) / 2}
    return sides.get(value.strip().casefold()) if isinstance(value, str) else None


def _finite(value: float | str) -> float | None:
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def _same_words(one: str, other: str) -> bool:
    return " ".join(one.split()).casefold() == " ".join(other.split()).casefold()


def _wanted(criterion: Criterion) -> str:
    return f"it takes {', '.join(map(number, criterion.anchors))} or {SKIP}"
