"""What a person should know of evidence that does not stand in the documents word for word."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]


def similar_evidence(rows: Sequence[Row]) -> list[str]:
    """Return `similarity question: URL` of the evidence that is not there word for word, the least first.

    rows: resolved (`schemas.QUESTIONS`)
    """
    found = [
        (item["similarity"], row["question_id"], item["url"])
        for row in rows
        for item in row["evidence"]
        if (item.get("similarity") or 1.0) < 1.0
    ]
    return [f"{in_words(similarity)} {question}: {url}" for similarity, question, url in sorted(found)]


def in_words(similarity: float) -> str:
    """Return a similarity with two digits, cut off and not rounded: what is not exact is never 1.00.

    >>> in_words(0.999), in_words(0.9)
    ('0.99', '0.90')
    """
    return f"{math.floor(similarity * 100 + 1e-9) / 100:.2f}"


def without_place(written: Sequence[Row], resolved: Sequence[Row]) -> list[str]:
    """Return the ids of the questions whose ground truth was looked for, and stands nowhere."""
    return [
        row["question_id"]
        for before, row in zip(written, resolved, strict=True)
        if not row["evidence"] and any(item.get("by_truth") for item in before["evidence"])
    ]


def ground_truths_without_place(ids: Sequence[str]) -> str:
    """Return how many ground truths stand nowhere, and a few of their questions.

    >>> ground_truths_without_place(["a", "b"])
    '2 ground truths stand nowhere, so that their questions have no evidence: a, b'
    """
    named = ", ".join(ids[:5]) + (", …" if len(ids) > 5 else "")
    return f"{len(ids)} ground truths stand nowhere, so that their questions have no evidence: {named}"
