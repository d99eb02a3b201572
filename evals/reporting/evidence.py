"""Marks the evidence of a question in a passage, and trims long passages around it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Span = tuple[int, int]


@dataclass(frozen=True)
class EvidenceSegment:
    """A run of characters that is evidence or is not."""

    text: str
    evidence: bool


def evidence_spans(doc_id: str, start: int, end: int, evidence: Iterable[Mapping[str, Any]]) -> list[Span]:
    """Return where evidence of the same document lies in a hit `[start, end)`, counted from the hit's start.

    Spans are merged and in order. Evidence without offsets (a whole document) fills the hit.

    >>> evidence_spans("d", 100, 200, [{"doc_id": "d", "quote": "q", "start": 90, "end": 110}])
    [(0, 10)]
    """
    found = []
    for item in evidence:
        if item["doc_id"] != doc_id:
            continue
        if item["start"] is None or item["end"] is None:
            if item["quote"] is None:
                found.append((0, end - start))
            continue
        span = (max(item["start"], start) - start, min(item["end"], end) - start)
        if span[0] < span[1]:
            found.append(span)
    return _merged(found)


def segments(text: str, spans: Sequence[Span], limit: int) -> tuple[EvidenceSegment, ...]:
    """Split ``text`` at the spans, cut to about ``limit`` characters around the first span.

    >>> [(s.text, s.evidence) for s in segments("abcdef", [(2, 4)], 10)]
    [('ab', False), ('cd', True), ('ef', False)]
    """
    first = _window_start(len(text), spans, limit)
    last = min(len(text), first + limit)
    parts = [EvidenceSegment("…", False)] if first else []
    at = first
    for start, end in ((max(start, first), min(end, last)) for start, end in spans):
        if start >= end:
            continue
        parts += [EvidenceSegment(text[at:start], False), EvidenceSegment(text[start:end], True)]
        at = end
    parts += [EvidenceSegment(text[at:last], False)]
    parts += [EvidenceSegment("…", False)] if last < len(text) else []
    return tuple(part for part in parts if part.text)


def _window_start(length: int, spans: Sequence[Span], limit: int) -> int:
    if length <= limit or not spans or spans[0][1] <= limit:
        return 0
    return min(max(0, spans[0][0] - limit // 4), max(0, length - limit))


def _merged(spans: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
