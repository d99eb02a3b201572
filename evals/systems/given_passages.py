"""Reads the passages that a system gives: texts, mappings, or the objects of RAG libraries."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Any, NamedTuple

_TEXTS = ("text", "page_content", "content", "passage", "snippet", "chunk")
_URLS = ("url", "source", "uri", "link", "file_path", "filepath", "file_name")
_IDS = ("doc_id", "document_id", "id")
_INSIDE = ("metadata", "meta", "document", "node")


class GivenPassage(NamedTuple):
    """A passage in a system's own words; without text it means the whole document."""

    text: str = ""
    url: str | None = None
    document: str | None = None
    title: str | None = None
    score: float | None = None

    @property
    def is_empty(self) -> bool:
        return not (self.text.strip() or self.url or self.document)


class UnreadableError(ValueError):
    """What a system gave is no passage; the message says what it is."""


def read_passages(given: object) -> tuple[GivenPassage, ...]:
    """Read texts, mappings, or documents of LangChain, LlamaIndex and Haystack; raises UnreadableError."""
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        given = [given]
    return tuple(read_passage(one) for one in given)


def read_passage(given: Any) -> GivenPassage:
    if isinstance(given, str):
        return GivenPassage(given)
    parts = [_fields(given)]
    parts += [fields for name in _INSIDE if (fields := _fields(parts[0].get(name)))]
    parts += [fields for part in parts[1:] for name in _INSIDE if (fields := _fields(part.get(name)))]
    found = GivenPassage(
        _first(parts, _TEXTS) or "",
        _first(parts, _URLS),
        _first(parts, _IDS),
        _first(parts, ("title",)),
        _number(parts[0].get("score")),
    )
    if found.is_empty:
        raise UnreadableError(f"a passage has neither text, url nor id: {str(given)[:80]!r}")
    return found


def _fields(value: Any) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    if value is None or isinstance(value, str | int | float | list | tuple):
        return {}
    names = (*_TEXTS, *_URLS, *_IDS, *_INSIDE, "title", "score")
    return {name: getattr(value, name, None) for name in names}


def _first(parts: list[Mapping[str, Any]], names: tuple[str, ...]) -> str | None:
    for part in parts:
        for name in names:
            value = part.get(name)
            if isinstance(value, str) and value.strip():
                return value
            if isinstance(value, Integral) and not isinstance(value, bool):
                return str(value)
    return None


def _number(value: object) -> float | None:
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else None  # type: ignore[arg-type]
