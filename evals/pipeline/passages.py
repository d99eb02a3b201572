"""Builds the passages that generators and judges read: from hits and an index, or from reference passages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rag_assay.assets.chunking.contract import Section
from rag_assay.assets.chunking.sections import SectionTree
from rag_assay.assets.chunking.sentence_splitter import sentence_places
from rag_assay.evals.generation.contract import Passage
from rag_assay.evals.retrieval.index import OpenIndex

Headings = Mapping[str, Sequence[str]]
"""Chunk id -> the headings above it, outermost first."""


def passage_of(
    index: OpenIndex, chunk_id: str, start: int, end: int, score: float, headings: Headings | None = None
) -> Passage:
    """Return what was delivered for a chunk: `document.text[start:end]`, with its document's facts."""
    row = index.positions[chunk_id]
    doc_id, title, url, published_at = index.stored.at([row], "doc_id", "title", "url", "published_at")[0]
    return Passage(
        text=index.passage(doc_id, start, end),
        chunk=chunk_id,
        document=doc_id,
        title=title or None,
        url=url,
        date=published_at,
        section=tuple((headings or {}).get(chunk_id, ())),
        start=start,
        end=end,
        score=score,
    )


def evidence_passages(
    question: Mapping[str, Any], documents: Mapping[str, Mapping[str, Any]]
) -> list[Passage]:
    """Return the evidence of a question as passages, the highest grade first, else in its own order.

    A quote is widened to the sentences that it touches, and what then overlaps is one passage; where the
    evidence is a whole document, the passage is that, whose end is cut off where it does not fit.

    question: a row of `schemas.QUESTIONS`, its evidence found in the documents
    documents: id -> a row of `schemas.DOCUMENTS`
    """
    spans: dict[tuple[str, int, int], int] = {}
    for piece in question["evidence"]:
        document = documents.get(piece["doc_id"])
        if document is None or piece["reason"]:
            continue
        whole = piece["start"] is None
        start, end = (0, len(document["text"])) if whole else _widened(document["text"], piece)
        key = (piece["doc_id"], start, end)
        spans[key] = max(piece["grade"], spans.get(key, 0))
    ordered = sorted(_merged(spans), key=lambda one: -one[1])
    return [_of_document(documents[doc], start, end, grade) for (doc, start, end), grade in ordered]


def _widened(text: str, piece: Mapping[str, Any]) -> tuple[int, int]:
    touched = [one for one in sentence_places(text) if one[0] < piece["end"] and one[1] > piece["start"]]
    starts, ends = (
        [piece["start"], *(start for start, _ in touched)],
        [piece["end"], *(e for _, e in touched)],
    )
    return min(starts), max(ends)


def _merged(spans: Mapping[tuple[str, int, int], int]) -> list[tuple[tuple[str, int, int], int]]:
    """Join the spans of a document that overlap; each stays where the first of its parts stood."""
    found: list[tuple[tuple[str, int, int], int]] = []
    for (doc, start, end), grade in spans.items():
        place = None
        for one in [one for one in found if one[0][0] == doc and one[0][1] < end and start < one[0][2]]:
            start, end, grade = min(start, one[0][1]), max(end, one[0][2]), max(grade, one[1])  # noqa: PLW2901
            place = found.index(one) if place is None else place
            found.remove(one)
        found.insert(len(found) if place is None else place, ((doc, start, end), grade))
    return found


def _of_document(document: Mapping[str, Any], start: int, end: int, grade: int) -> Passage:
    sections = [Section(**one) for one in document["sections"] or ()]
    return Passage(
        text=document["text"][start:end],
        chunk=f"{document['doc_id']}:{start}-{end}",
        document=document["doc_id"],
        title=document["title"] or None,
        url=document["url"],
        date=document["published_at"],
        section=tuple(SectionTree(sections, len(document["text"])).headings(start)),
        start=start,
        end=end,
        score=float(grade),
    )
