"""Names of axes as keys can hold them, made of what a spreadsheet says."""

from __future__ import annotations

import ast
import json
import math
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.validation_errors import NAME_PATTERN

MOST_ITEMS, DEPTH = 10_000, 6
EXCEL_CELL = 32_767  # characters that a cell of Excel holds: longer texts are cut there
_CLOSING = {"[": "]", "(": ")", "{": "}"}
_TOKEN = re.compile(
    r"""\s*(?:(?P<text>[uUbB]?(?:'[^'\\]*+(?:\\.[^'\\]*+)*+'|"[^"\\]*+(?:\\.[^"\\]*+)*+"))
    |(?P<number>[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+|nan\b|inf\b))
    |(?P<word>[A-Za-z_]\w*)
    |(?P<sign>[\[\](){},:=]))""",
    re.VERBOSE | re.DOTALL,
)
_WORDS = {"None": None, "null": None, "True": True, "true": True, "False": False, "false": False}


def looks_listed(text: str) -> bool:
    """Return whether a text begins as a list or a tuple of texts or numbers does, and ends as one.

    >>> [looks_listed(one) for one in ("['a']", "(508, 170)", "[]", "[1] as said there", "(so he says)")]
    [True, True, True, False, False]
    """
    plain = text.strip()
    closes = plain[:1] in ("[", "(") and plain.endswith(_CLOSING[plain[0]])
    return (
        closes
        and re.match(r"[\[(]\s*(?:['\"\[({\])]|[uUbB]['\"]|[-+.\d]|None\b|Document\()", plain) is not None
    )


def read_literal(text: str) -> Any:
    """Return the list or tuple that a text holds.

    Raises:
        ValueError: it is none, or more than is read.

    >>> read_literal("['a', 'b']"), read_literal("(508, 170)"), read_literal("['a' 'b']")
    (['a', 'b'], (508, 170), ['a', 'b'])
    """
    plain = text.strip()
    if plain.startswith("["):
        try:
            return _bounded(json.loads(plain))
        except (ValueError, RecursionError):
            pass
    found, at = _Reader(plain).value(plain, 0, 0)
    if plain[at:].strip():
        raise ValueError(f"not a list: {plain[at : at + 20]!r} stands behind its end")
    if not isinstance(found, list | tuple):
        raise ValueError("must be a list")  # noqa: TRY004 -- what a person wrote
    return found


def _bounded(value: Any) -> Any:
    if isinstance(value, list) and len(value) > MOST_ITEMS:
        raise ValueError(f"more than {MOST_ITEMS:,} items")
    return value


class _Reader:
    """Reads one text; counts what it has read."""

    def __init__(self, text: str) -> None:
        self._n = 0
        self._cut = len(text) >= EXCEL_CELL - 1

    def value(self, text: str, at: int, depth: int) -> tuple[Any, int]:
        """Return the value that begins at a place, and where it ends."""
        token = self._token(text, at)
        self._n += 1
        if self._n > MOST_ITEMS:
            raise ValueError(f"more than {MOST_ITEMS:,} items")
        kind, found = token.lastgroup, token[token.lastgroup or 0]
        if kind == "text":
            return _unquoted(found), token.end()
        if kind == "number":
            return _number(found), token.end()
        if kind == "word":
            return self._named(text, found, token.end(), depth)
        if found in _CLOSING and depth < DEPTH:
            return self._items(text, found, token.end(), depth + 1)
        what = "nested too deeply" if found in _CLOSING else f"{found!r} stands where an item should"
        raise ValueError(f"not a list that can be read: {what}")

    def _named(self, text: str, word: str, at: int, depth: int) -> tuple[Any, int]:
        if word in _WORDS:
            return _WORDS[word], at
        if text[at : at + 1] == "(" and depth < DEPTH:
            return self._items(text, "(", at + 1, depth + 1, keyed=True)
        raise ValueError(f"not a list that can be read: {word[:20]!r} is not in quotes")

    def _items(self, text: str, opening: str, at: int, depth: int, *, keyed: bool = False) -> tuple[Any, int]:
        items: list[Any] = []
        named: dict[str, Any] = {}
        while True:
            token = self._token(text, at)
            sign = token["sign"]
            if sign == _CLOSING[opening]:
                return _closed(opening, items, named, keyed=keyed), token.end()
            if sign == ",":
                at = token.end()
                continue
            if keyed:
                name, at = token[0].strip(), self._token(text, token.end()).end()
                named[name], at = self.value(text, at, depth)
                continue
            one, at = self.value(text, at, depth)
            if opening == "{":
                at = self._token(text, at).end()  # the colon
                named[str(one)], at = self.value(text, at, depth)
            else:
                items.append(one)

    def _token(self, text: str, at: int) -> re.Match[str]:
        found = _TOKEN.match(text, at)
        if found is None or found.lastgroup is None:
            why = f"cut at {EXCEL_CELL:,} characters, as Excel does" if self._cut else "it does not end"
            rest = text[at : at + 20].strip()
            what = why if not rest or self._cut else f"{rest!r} cannot be read"
            raise ValueError(f"not a list that can be read: {what}")
        return found


def _closed(opening: str, items: list[Any], named: dict[str, Any], *, keyed: bool) -> Any:
    if keyed or opening == "{":
        return named
    return tuple(items) if opening == "(" else items


def _unquoted(token: str) -> str:
    plain = token.lstrip("uUbB")
    try:
        found = ast.literal_eval(plain)  # one text in quotes: no more than that can be in it
    except (ValueError, SyntaxError):  # a line break within, or a backslash that escapes nothing
        return plain[1:-1]
    return str(found)


def _number(token: str) -> int | float:
    if re.fullmatch(r"[-+]?\d{1,18}", token):
        return int(token)
    value = float(token)
    return value if math.isfinite(value) else math.nan


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
    """Return what a spreadsheet says, in one form only: by it two cells are told to say the same.

    >>> said(128.0), said(["a", "b"]), said((508, 170)), said(" BM25 ")
    ('128', "['a', 'b']", '(508, 170)', 'BM25')
    """
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def key_name(value: Any) -> str:
    """Return the name that a key can hold for what a spreadsheet says: small letters, digits, `-` and `+`.

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
    """Return the name that a mapping gives for what a spreadsheet says; None where it gives none.

    >>> chosen({"(508,170)": "large"}, (508, 170)), chosen({"(508,170)": "large"}, (128, 42))
    ('large', None)
    """
    wanted = said(value)
    return next((name for words, name in values.items() if said(value_of(words)) == wanted), None)
