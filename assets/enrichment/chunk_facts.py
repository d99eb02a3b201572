"""Metadata of a chunk from its document and its place in it; no model is used."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

from rag_assay.warehouse.identity import digest


@dataclass(frozen=True)
class DocumentMetadata:
    """What all chunks of one document share.

    n_chunks: how many there are
    page_starts: where each page of the file begins, in characters; empty for what has no pages
    """

    n_chunks: int
    title: str | None
    url: str | None
    published_at: str | None
    language: str | None
    keywords: tuple[str, ...]
    page_starts: tuple[int, ...]


def document_facts(document: dict[str, Any], n_chunks: int) -> DocumentMetadata:
    """Read the shared facts off a row of `schemas.DOCUMENTS`; columns that it lacks are unknown."""
    metadata = json.loads(document.get("metadata") or "{}")
    return DocumentMetadata(
        n_chunks=n_chunks,
        title=document.get("title"),
        url=document.get("url"),
        published_at=document.get("published_at"),
        language=document.get("language"),
        keywords=tuple(document.get("keywords") or ()),
        page_starts=tuple(metadata.get("page_starts") or ()),
    )


def facts_of(document: DocumentMetadata, start: int, ordinal: int, text: str) -> dict[str, Any]:
    """Return the columns of `schemas.CHUNKS` that describe a chunk beside its place and text."""
    tags = tags_in(text, document.keywords)
    return {
        "n_chunks": document.n_chunks,
        "position": ordinal / max(1, document.n_chunks - 1),
        "words": len(text.split()),
        "characters": len(text),
        "tags": tags,
        "n_tags": len(tags),
        "content_hash": digest([text, document.title, document.url]),
        "page": bisect_right(document.page_starts, start) or None,
        "title": document.title,
        "url": document.url,
        "published_at": document.published_at,
        "language": document.language,
        "keywords": list(document.keywords),
    }


def tags_in(text: str, tags: tuple[str, ...]) -> list[str]:
    """Return the tags of a document that stand in a text as whole words, in their order.

    >>> tags_in("Ein Tor für Bochum", ("VfL Bochum", "Bochum", "Tore"))
    ['Bochum']
    """
    folded = text.casefold()
    return [tag for tag in dict.fromkeys(tags) if _stands_in(tag.casefold().strip(), folded)]


def _stands_in(tag: str, text: str) -> bool:
    if not tag or tag not in text:  # the quick look spares most regular expressions
        return False
    return re.search(rf"(?<!\w){re.escape(tag)}(?!\w)", text) is not None
