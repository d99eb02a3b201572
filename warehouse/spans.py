"""Spans of characters in the text of documents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Span(NamedTuple):
    """Characters of a document: `document.text[start:end]`."""

    doc_id: str
    start: int
    end: int


def uncovered(span: Span, passages: Sequence[Span]) -> list[Span]:
    """Return the spans of ``span`` that none of the passages holds.

    >>> passages = [Span("a", 2, 4), Span("a", 3, 6), Span("b", 0, 10), Span("a", 12, 20)]
    >>> [tuple(gap) for gap in uncovered(Span("a", 0, 10), passages)]
    [('a', 0, 2), ('a', 6, 10)]
    """
    missing, reached = [], span.start
    inside = [p for p in passages if p.doc_id == span.doc_id and p.start < span.end]
    for passage in sorted(inside):
        if reached < passage.start:
            missing.append(Span(span.doc_id, reached, passage.start))
        reached = max(reached, passage.end)
    return [*missing, Span(span.doc_id, reached, span.end)] if reached < span.end else missing


def merge_spans(spans: Iterable[Span]) -> list[Span]:
    """Return spans that do not overlap and hold the same characters."""
    found: list[Span] = []
    for span in sorted(spans):
        last = found[-1] if found else None
        if last and last.doc_id == span.doc_id and span.start <= last.end:
            found[-1] = last._replace(end=max(last.end, span.end))
        else:
            found.append(span)
    return found
