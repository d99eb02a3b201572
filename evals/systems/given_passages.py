"""Reads what a system returns: texts, lists, mappings, or the objects of RAG libraries."""

from __future__ import annotations

import json
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


ANSWERS = ("answer", "result", "output", "response", "replies", "answers", "text", "content")
PASSAGES = (
    *("passages", "retrieved_contexts", "contexts", "context", "source_documents", "sources", "source_nodes"),
    *("documents", "nodes"),
)


def read_reply(given: Any) -> tuple[str | None, Any]:
    """Return the answer and the passages (None: not told) of a reply; raises UnreadableError.

    >>> read_reply({"answer": "At noon.", "retrieved_contexts": ["The ferry leaves at noon."]})
    ('At noon.', ['The ferry leaves at noon.'])

    Raises:
        UnreadableError: it has neither.
    """
    if given is None or isinstance(given, str):
        return given, None
    if isinstance(given, list | tuple):  # of a retriever
        return None, given
    fields = given if isinstance(given, Mapping) else _Attributes(given)
    answer = next((text for name in ANSWERS if (text := _said(fields.get(name)))), None)
    passages = next((fields.get(name) for name in PASSAGES if fields.get(name) is not None), None)
    if isinstance(passages, str):  # a prompt's context, already joined
        passages = [passages]
    if answer is None and passages is None:
        what = ", ".join(map(str, given)) if isinstance(given, Mapping) else type(given).__name__
        raise UnreadableError(f"it returned neither text nor a mapping with `answer` or `passages`: {what}")
    return answer, passages


def _said(value: Any) -> str | None:
    if isinstance(value, list | tuple) and value:
        return _said(value[0])
    if value is None or isinstance(value, str):
        return value
    fields = value if isinstance(value, Mapping) else _Attributes(value)
    for name in ("content", "text", "data", "answer"):  # a message
        if isinstance(found := fields.get(name), str):
            return found
    return json.dumps(value) if isinstance(value, int | float) else None


class _Attributes:
    """Reads the attributes of an object as a mapping."""

    def __init__(self, of: Any) -> None:
        self._of = of

    def get(self, name: str) -> Any:
        found = getattr(self._of, name, None)
        return None if callable(found) else found
