"""Spans of characters in the text of documents."""

from __future__ import annotations

from typing import NamedTuple


class Span(NamedTuple):
    """Characters of a document: `document.text[start:end]`."""

    doc_id: str
    start: int
    end: int
