"""Evidence that was found in the documents: moved to the copies that a corpus keeps, and read as gold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rag_assay.evals.metrics.contract import Gold
from rag_assay.evals.question_sets.alignment import Alignment, WordedText, find_quote, most_similar
from rag_assay.warehouse.spans import Span


def in_first_copies(
    evidence: Sequence[dict[str, Any]], copies: dict[str, dict[str, Any]]
) -> list[dict[str, Any]]:
    """Move evidence in copies to the document that is kept; equal pieces are named once."""
    kept: list[tuple[dict[str, Any], bool]] = []
    for item in evidence:
        first = copies.get(item["doc_id"])
        row = _moved(item, first) if first else item
        if not any((first or was_moved) and _is_same(row, other) for other, was_moved in kept):
            kept.append((row, first is not None))
    return [row for row, _ in kept]


def _moved(item: dict[str, Any], first: dict[str, Any]) -> dict[str, Any]:
    if item["reason"]:
        return {**item, "doc_id": first["doc_id"]}
    if not item["quote"]:
        return {**item, "doc_id": first["doc_id"]}
    span = find_quote(first["text"], item["quote"])
    place = (
        Alignment(*span, item["similarity"])
        if span
        else most_similar(WordedText(first["text"]), item["quote"])
    )
    if place is None:
        reason = f"the document is left out as a near copy of {first['url']}, which lacks the quote"
        return {**item, "doc_id": None, "start": None, "end": None, "reason": reason}
    return {
        **item,
        **{"doc_id": first["doc_id"], "start": place.start, "end": place.end, "similarity": place.similarity},
    }


def _is_same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    names = ("doc_id", "start", "end", "reason")
    return one["reason"] is None and all(one[name] == other[name] for name in names)


def gold_of(question: dict[str, Any]) -> Gold:
    """Return what a question should find; missing evidence counts, so that denominators are equal."""
    evidence: Sequence[dict[str, Any]] = question["evidence"] or ()
    documents: dict[str, int] = {}
    spans: list[Span] = []
    missing = 0
    for number, item in enumerate(evidence):
        doc = item["doc_id"] or f"missing evidence {number}: {item['url']}"
        documents[doc] = max(documents.get(doc, 0), item["grade"])
        if item["start"] is not None:
            spans.append(Span(item["doc_id"], item["start"], item["end"]))
        else:
            missing += len(item["quote"] or "")
    return Gold(documents, tuple(spans), missing, question["needs"] != "any")


Row = Mapping[str, Any]


def similar_evidence(rows: Sequence[Row]) -> list[str]:
    """Return `similarity question: URL` of the evidence that is not there word for word, the least first."""
    found = [
        (item["similarity"], row["question_id"], item["url"])
        for row in rows
        for item in row["evidence"]
        if (item.get("similarity") or 1.0) < 1.0
    ]
    return [f"{in_words(similarity)} {question}: {url}" for similarity, question, url in sorted(found)]


def in_words(similarity: float) -> str:
    """Cut off, not rounded: what is not exact is never 1.00.

    >>> in_words(0.999), in_words(0.9)
    ('0.99', '0.90')
    """
    return f"{math.floor(similarity * 100 + 1e-9) / 100:.2f}"


def without_place(written: Sequence[Row], resolved: Sequence[Row]) -> list[str]:
    return [
        row["question_id"]
        for before, row in zip(written, resolved, strict=True)
        if not row["evidence"] and any(item.get("by_truth") for item in before["evidence"])
    ]


def ground_truths_without_place(ids: Sequence[str]) -> str:
    named = ", ".join(ids[:5]) + (", …" if len(ids) > 5 else "")
    return f"{len(ids)} ground truths stand nowhere, so that their questions have no evidence: {named}"
