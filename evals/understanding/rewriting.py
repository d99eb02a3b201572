"""Replaces the text of a query and computes its vector again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evals.retrieving.contract import Query, Vector


def rewritten(query: Query, text: str) -> Query:
    """Return the query with another text, and that text's vector where it had one."""
    if text == query.text or not text.strip():
        return query
    return replace(query, text=text, vector=vector_of(query, [text]))


def vector_of(query: Query, texts: list[str]) -> Vector | None:
    """Return the unit vector of the mean of the texts' vectors; None where the query needs none.

    Raises:
        ValueError: the query has a vector, but its context cannot embed.
    """
    if query.vector is None:
        return None
    if query.context.embed is None:
        raise ValueError("a rewritten question must be embedded again, but the context has no embedder")
    mean = query.context.embed(texts).mean(axis=0)
    length = float(np.linalg.norm(mean))
    return (mean / length if length > 0 else mean).astype(np.float32)
