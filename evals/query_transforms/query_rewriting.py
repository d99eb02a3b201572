"""Replaces the text of a query and computes its vector again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rag_assay.evals.retrieval.context import Embed
from rag_assay.evals.retrieval.query import Query
from rag_assay.evals.retrieval.ranking import Vector


def rewritten(query: Query, text: str, embed: Embed | None) -> Query:
    if text == query.text or not text.strip():
        return query
    return replace(query, text=text, vector=vector_of(query, [text], embed))


def with_text(query: Query, text: str) -> Query:
    """Return the query with another text for word search; its vector stays that of the question.

    Rules leave words out, which words are found by as well, and vectors worse (docs/retrieval-results.md).
    """
    if text == query.text or not text.strip():
        return query
    return replace(query, text=text, vector=None if query.vector is None else query.vector.copy())


def vector_of(query: Query, texts: list[str], embed: Embed | None) -> Vector | None:
    """Return the unit vector of the mean of the texts' vectors; None where the query needs none."""
    if query.vector is None:
        return None
    if embed is None:
        raise ValueError("a rewritten question must be embedded again, but there is no embedder")
    mean = embed(texts).mean(axis=0)
    length = float(np.linalg.norm(mean))
    return (mean / length if length > 0 else mean).astype(np.float32)
