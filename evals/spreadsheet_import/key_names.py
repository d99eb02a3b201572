"""Names of axes as keys can hold them, made of what a sheet says."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from rag_assay.evals.spreadsheet_import.literals import looks_listed, read_literal
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.validation_errors import NAME_PATTERN

MOST = 60  # characters of a name
NO_ITEM = "none"
"""What an empty list is called: no method, no model."""
_SPELLED = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "æ": "ae", "ø": "o", "&": "+"})


def value_of(cell: Any) -> Any:
    """Return the value of a cell of an axis: a list that is written as text is a list, all else as it is."""
    if isinstance(cell, str) and looks_listed(cell):
        try:
            return read_literal(cell)
        except ValueError:
            return cell.strip()
    return cell.strip() if isinstance(cell, str) else cell


def said(value: Any) -> str:
    """Return what a sheet says, in one form only: by it two cells are told to say the same.

    >>> said(128.0), said(["a", "b"]), said((508, 170)), said(" BM25 ")
    ('128', "['a', 'b']", '(508, 170)', 'BM25')
    """
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def key_name(value: Any) -> str:
    """Return the name that a key can hold for what a sheet says: small letters, digits, `-` and `+`.

    Items of a list are joined by `+`, those of a tuple and what is between words by `-`.

    >>> key_name(["keyword", "time_weighted"]), key_name((508, 170)), key_name("128/42"), key_name([])
    ('keyword+time_weighted', '508-170', '128-42', 'none')
    >>> key_name("Größe 1,5"), key_name("検索")
    ('groesse-1-5', 'x-80e9ed3a')
    """
    if isinstance(value, list | tuple) and not value:
        return NO_ITEM
    if isinstance(value, list):
        return _fitted("+".join(key_name(one) for one in value), value)
    if isinstance(value, tuple):
        return _fitted("-".join(key_name(one) for one in value), value)
    text = unicodedata.normalize("NFKC", said(value)).lower().translate(_SPELLED)
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return _fitted(re.sub(r"[^a-z0-9_+]+", "-", plain).strip("-+_"), value)


def _fitted(name: str, value: Any) -> str:
    """Return a name that keys can hold; the digest of what was said stands for what cannot be written."""
    if re.fullmatch(NAME_PATTERN, name) and len(name) <= MOST:
        return name
    ending = digest(said(value))[:8]
    short = name[: MOST - 9].strip("-+_")
    return f"{short}-{ending}" if re.fullmatch(NAME_PATTERN, short) else f"x-{ending}"


def is_missing(value: Any) -> bool:
    """Return whether a cell says nothing: it is empty, blank or not a number.

    >>> [is_missing(one) for one in (None, " ", float("nan"), [], 0)]
    [True, True, True, False, False]
    """
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or (isinstance(value, str) and not value.strip())


def chosen(values: Mapping[str, str], value: Any) -> str | None:
    """Return the name that a mapping gives for what a sheet says; None where it gives none.

    >>> chosen({"(508,170)": "large"}, (508, 170)), chosen({"(508,170)": "large"}, (128, 42))
    ('large', None)
    """
    wanted = said(value)
    return next((name for words, name in values.items() if said(value_of(words)) == wanted), None)
