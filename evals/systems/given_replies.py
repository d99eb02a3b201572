"""Reads what a system returns: a text, a list of passages, or a mapping or object with both."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rag_assay.evals.systems.given_passages import UnreadableError

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
