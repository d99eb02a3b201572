"""The values of cells, whether they come as text from a table or typed from JSON and Parquet."""

from __future__ import annotations

import ast
import json
import math
from datetime import date, datetime
from typing import Any

MAX_CELL = 1_000_000  # characters
_TRUE, _FALSE = frozenset({"true", "yes", "1"}), frozenset({"false", "no", "0"})


def is_empty(value: Any) -> bool:
    """Return whether a cell holds nothing: None, blanks, NaN, an empty list."""
    if isinstance(value, float):
        return math.isnan(value)
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, list | tuple | dict) and not value)


def plain_text(value: Any) -> str:
    """Return text; a number as it is written; the first of a list of texts.

    Raises:
        ValueError: it is neither, or too long.
    """
    if isinstance(value, list) and value:
        value = value[0]  # `ground_truths` and `generation_gt`: the first of several right answers
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"must be text, not {type(value).__name__}")  # noqa: TRY004 -- wrong input, as others
    text = str(value)
    if len(text) > MAX_CELL:
        raise ValueError(f"longer than {MAX_CELL:,} characters")
    return text.strip()


def truth_value(value: Any) -> bool:
    """Return a truth value, also one that is written as text."""
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word not in _TRUE | _FALSE:
        raise ValueError(f"must be true or false, not {str(value)[:40]!r}")
    return word in _TRUE


def whole(value: Any) -> int:
    """Return a whole number, also one that is written as text or as `3.0`."""
    try:
        number = (
            float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else None
        )
    except (ValueError, OverflowError):
        number = None
    if number is None or not math.isfinite(number) or not number.is_integer() or abs(number) > 1e12:
        raise ValueError(f"must be a whole number, not {str(value)[:40]!r}")
    return int(number)


def day(value: Any) -> str:
    """Return a day as ISO 8601 has it."""
    if isinstance(value, datetime):
        return value.date().isoformat()
    return value.isoformat() if isinstance(value, date) else plain_text(value)[:10]


def listed(value: Any) -> list[Any]:
    """Return a list; written as text it is JSON, or as Python writes one (so pandas does in a CSV file).

    Raises:
        ValueError: it is none.
    """
    if isinstance(value, list | tuple):
        return list(value)
    if isinstance(value, str) and len(value) <= MAX_CELL and value.lstrip().startswith("["):
        for read in (json.loads, ast.literal_eval):
            try:
                found = read(value)
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                continue
            if isinstance(found, list):
                return found
    raise ValueError('must be a list, as in ["a", "b"]')
