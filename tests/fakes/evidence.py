"""Written evidence, resolved among a few documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rag_assay.evals.question_sets.evidence_resolution import Resolver

Row = dict[str, Any]


def resolve(item: Row, documents: Mapping[str, Sequence[Row]], question: str = "What?") -> Row:
    """Return one piece of written evidence as a row of `schemas.EVIDENCE`; ``documents`` by URL."""
    (row,) = resolve_all(item, [one for same in documents.values() for one in same], question)
    return row


def resolve_all(item: Row, documents: Sequence[Row], question: str = "What?") -> list[Row]:
    """Return the rows that one piece of written evidence becomes."""
    asked = {"question": question, "evidence": [{"url": None, **item}], "gold": "none", "needs": "all"}
    found: list[Row] = Resolver(documents, [asked]).resolve(asked)["evidence"]
    return found
