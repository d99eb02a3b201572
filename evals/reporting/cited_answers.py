"""An answer with its citations: each marker linked to the passage that it names, or flagged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rag_assay.evals.generation.citations import Marker, read_markers
from rag_assay.evals.reporting.display import several
from rag_assay.evals.reporting.evidence import evidence_spans
from rag_assay.evals.reporting.links import safe_link

Row = Mapping[str, Any]


@dataclass(frozen=True)
class RenderedCitation:
    """One citation as it is shown.

    link: the passage on this page, or the page that it is from; None where neither can be linked
    why: what it names, or why it names nothing
    valid: whether it names a passage that was given
    evidence: whether that passage holds evidence of the question
    """

    number: int
    link: str | None
    why: str
    valid: bool
    evidence: bool


@dataclass(frozen=True)
class AnswerPiece:
    """Characters of an answer, or a citation in their place."""

    text: str = ""
    cited: RenderedCitation | None = None


@dataclass(frozen=True)
class CitedAnswer:
    """The pieces of an answer in their order, and what it cites without a marker in its text."""

    pieces: tuple[AnswerPiece, ...]
    beside: tuple[RenderedCitation, ...]


def render_cited_answer(
    answer: Row, limit: int, on_page: Mapping[str, str], evidence: Iterable[Row] = ()
) -> CitedAnswer:
    """Return what is shown of an answer, a row of `schemas.ANSWERS`.

    limit: characters of the text that are shown
    on_page: chunk id -> the anchor of its passage on the page
    evidence: of the question
    """
    text = answer["answer"] or ""
    citations: list[Row] = answer["citations"] or []
    pieces_of_evidence = list(evidence)
    read = len(answer["chunk_ids"] or ())
    known = {
        (one["marker"], one["sentence"]): _cited(one, read, on_page, pieces_of_evidence) for one in citations
    }
    markers = [one for one in read_markers(text) if (one.number, one.sentence) in known]
    shown = len(text) if len(text) <= limit else limit - 1
    pieces: list[AnswerPiece] = []
    at = 0
    for marker in (one for one in markers if one.end <= shown):
        # Several numbers may share their brackets: each becomes a pair of its own in their place.
        pieces += [AnswerPiece(text[at : marker.start])] if marker.start > at else []
        pieces.append(AnswerPiece(cited=known[marker.number, marker.sentence]))
        at = max(at, marker.end)
    rest = text[at:shown]
    pieces.append(AnswerPiece(rest if shown == len(text) else rest.rstrip() + "…"))
    return CitedAnswer(
        tuple(one for one in pieces if one.cited or one.text), _beside(citations, markers, known)
    )


def _beside(
    citations: Sequence[Row],
    markers: Sequence[Marker],
    known: Mapping[tuple[int, int | None], RenderedCitation],
) -> tuple[RenderedCitation, ...]:
    """Return what is cited without a marker, each passage once, by number."""
    written = {(one.number, one.sentence) for one in markers}
    places = [(one["marker"], one["sentence"]) for one in citations]
    found = {place[0]: known[place] for place in places if place not in written}
    return tuple(found[number] for number in sorted(found))


def _cited(one: Row, read: int, on_page: Mapping[str, str], evidence: Sequence[Row]) -> RenderedCitation:
    if one["chunk_id"] is None:
        return RenderedCitation(
            one["marker"], None, f"points nowhere: {several(read, 'passage')} given", False, False
        )
    anchor = on_page.get(one["chunk_id"])
    place = f"characters {one['start']} to {one['end']}"
    holds = bool(evidence_spans(one["doc_id"], one["start"], one["end"], evidence))
    named = [
        " › ".join(one["section"] or ()),
        one["url"] or one["doc_id"],
        place,
        "holds evidence" if holds else "",
    ]
    link = f"#{anchor}" if anchor else safe_link(one["url"])
    return RenderedCitation(one["marker"], link, ", ".join(filter(None, named)), True, holds)
