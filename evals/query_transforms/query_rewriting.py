"""Replaces the text of a query and computes its vector again."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from rag_assay.evals.retrieval.question_words import content
from rag_assay.evals.word_lists import alternation

if TYPE_CHECKING:
    from rag_assay.evals.retrieval.context import Embed
    from rag_assay.evals.retrieval.query import Query
    from rag_assay.evals.retrieval.ranking import Vector


@cache
def _opener() -> re.Pattern[str]:
    prepositions = alternation("questions", "opening_prepositions")
    return re.compile(
        rf"^\W*(?:(?:{prepositions})\s+)?(?:{alternation('questions', 'openers')})\b\s*", re.IGNORECASE
    )


@cache
def _auxiliary() -> re.Pattern[str]:
    return re.compile(rf"^(?:{alternation('questions', 'auxiliaries')})\b\s*", re.IGNORECASE)


def keyword_form(text: str) -> str:
    """
    >>> keyword_form("When does the ferry leave the harbour?")
    'ferry leave harbour'
    """
    return " ".join(word.text for word in content(text, once=False))


def statement(text: str) -> str:
    """Return a question without its question word, auxiliary and question mark: close to how a text says it.

    No grammar is done beyond that, so the verb keeps its form and place.

    >>> statement("When does the ferry leave the harbour?")
    'The ferry leave the harbour.'
    >>> statement("Wer wurde Meister der Ruhrlandliga?")
    'Meister der Ruhrlandliga.'
    """
    short = " ".join(text.split()).rstrip("?!. ")
    short = _auxiliary().sub("", _opener().sub("", short, count=1), count=1).strip(" ,;:")
    return f"{short[0].upper()}{short[1:]}." if short else ""


def rewritten(query: Query, text: str, embed: Embed | None) -> Query:
    if text == query.text or not text.strip():
        return query
    return replace(query, text=text, vector=vector_of(query, [text], embed))


def with_text(query: Query, text: str) -> Query:
    """Return the query with another text for word search; its vector stays that of the question."""
    if text == query.text or not text.strip():
        return query
    return replace(query, text=text, vector=None if query.vector is None else query.vector.copy())


def vector_of(query: Query, texts: list[str], embed: Embed | None) -> Vector | None:
    if query.vector is None:
        return None
    if embed is None:
        raise ValueError("a rewritten question must be embedded again, but there is no embedder")
    mean = embed(texts).mean(axis=0)
    length = float(np.linalg.norm(mean))
    return (mean / length if length > 0 else mean).astype(np.float32)
