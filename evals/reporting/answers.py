"""What is shown of an answer: steps, cut passages, evidence, citations and judgements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rag_assay.evals.generation.citations import read_markers
from rag_assay.evals.generation.contract import Answer, Attempt, Bin
from rag_assay.evals.reporting.display import number, safe_link, several
from rag_assay.evals.reporting.stored_rows import UNCALIBRATED
from rag_assay.warehouse.schemas import Status
from rag_assay.warehouse.spans import Span, merge_spans


@dataclass(frozen=True)
class AnswerSteps:
    """What was done for an answer beside asking once; empty for most."""

    attempts: tuple[Attempt, ...] = ()
    bins: tuple[Bin, ...] = ()
    turns_left_out: int = 0

    @property
    def summary(self) -> str:
        turns = f"{several(self.turns_left_out, 'turn')} of the conversation left out"
        told = [
            several(len(self.attempts), "look") + " for passages" if self.attempts else "",
            several(len(self.bins), "bin") if self.bins else "",
            turns if self.turns_left_out else "",
        ]
        return " · ".join(filter(None, told))


def steps_of(row: Mapping[str, Any]) -> AnswerSteps:
    attempts = (
        Attempt(one["query"], tuple(one["chunk_ids"]), one["sufficient"], one["reason"])
        for one in row.get("attempts") or ()
    )
    bins = (
        Bin(one["text"], tuple(one["chunk_ids"]), Status(one["status"]), one["reason"], one["answer"])
        for one in row.get("bins") or ()
    )
    return AnswerSteps(tuple(attempts), tuple(bins), row.get("turns_left_out") or 0)


def steps_of_answer(answer: Answer) -> AnswerSteps:
    return AnswerSteps(answer.attempts, answer.bins, answer.turns_left_out)


def verdict_words(attempt: Attempt) -> str:
    """
    >>> verdict_words(Attempt("Who?", ("c1",), False, "missing: the year"))
    '1 passage: does not suffice (missing: the year)'
    """
    words = {True: "suffices", False: "does not suffice", None: "not checked"}[attempt.sufficient]
    reason = f" ({attempt.reason})" if attempt.reason else ""
    return f"{several(len(attempt.chunks), 'passage')}: {words}{reason}"


def cut_words(kept: Sequence[int]) -> str:
    """kept: characters of each cut passage that were given; 0: it was left out"""
    shortened, left_out = sum(one > 0 for one in kept), sum(one == 0 for one in kept)
    parts = [
        f"{several(shortened, 'passage')} shortened" if shortened else "",
        f"{several(left_out, 'passage')} left out" if left_out else "",
    ]
    told = " and ".join(filter(None, parts))
    return f"{told} to fit the context" if told else ""


Ends = tuple[int, int]


@dataclass(frozen=True)
class EvidenceSegment:
    """A run of characters that is evidence or is not."""

    text: str
    evidence: bool


def evidence_spans(doc_id: str, start: int, end: int, evidence: Iterable[Mapping[str, Any]]) -> list[Ends]:
    """Return merged, ordered spans from the hit's start; evidence without offsets fills the hit."""
    found = []
    for item in evidence:
        if item["doc_id"] != doc_id:
            continue
        if item["start"] is None or item["end"] is None:
            if item["quote"] is None:
                found.append((0, end - start))
            continue
        span = (max(item["start"], start) - start, min(item["end"], end) - start)
        if span[0] < span[1]:
            found.append(span)
    return [(span.start, span.end) for span in merge_spans([Span(doc_id, *one) for one in found])]


def segments(text: str, spans: Sequence[Ends], limit: int) -> tuple[EvidenceSegment, ...]:
    """Split at the spans, cut to about ``limit`` characters around the first span.

    >>> [(s.text, s.evidence) for s in segments("abcdef", [(2, 4)], 10)]
    [('ab', False), ('cd', True), ('ef', False)]
    """
    first = _window_start(len(text), spans, limit)
    last = min(len(text), first + limit)
    parts = [EvidenceSegment("…", False)] if first else []
    at = first
    for start, end in ((max(start, first), min(end, last)) for start, end in spans):
        if start >= end:
            continue
        parts += [EvidenceSegment(text[at:start], False), EvidenceSegment(text[start:end], True)]
        at = end
    parts += [EvidenceSegment(text[at:last], False)]
    parts += [EvidenceSegment("…", False)] if last < len(text) else []
    return tuple(part for part in parts if part.text)


def _window_start(length: int, spans: Sequence[Ends], limit: int) -> int:
    if length <= limit or not spans or spans[0][1] <= limit:
        return 0
    return min(max(0, spans[0][0] - limit // 4), max(0, length - limit))


Row = Mapping[str, Any]


@dataclass(frozen=True)
class RenderedCitation:
    """link: the passage on this page, or its source page; None: not linkable
    why: what it names, or why it names nothing
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
    """The pieces of an answer in order; further: what it cites without a marker in its text."""

    pieces: tuple[AnswerPiece, ...]
    beside: tuple[RenderedCitation, ...]


def render_cited_answer(
    answer: Row, limit: int, on_page: Mapping[str, str], evidence: Iterable[Row] = ()
) -> CitedAnswer:
    """Render a row of `schemas.ANSWERS`; limit: characters; on_page: chunk id -> anchor of its passage."""
    text = answer["answer"] or ""
    citations: list[Row] = answer["citations"] or []
    pieces_of_evidence = list(evidence)
    read = len(answer["chunk_ids"] or ())
    shown_citations = (_cited(one, read, on_page, pieces_of_evidence) for one in citations)
    places = [(one["marker"], one["sentence"]) for one in citations]
    known = dict(zip(places, shown_citations, strict=True))
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
    written = {(one.number, one.sentence) for one in markers}
    beside = {place[0]: known[place] for place in places if place not in written}
    shown_pieces = tuple(one for one in pieces if one.cited or one.text)
    return CitedAnswer(shown_pieces, tuple(beside[number] for number in sorted(beside)))


def _cited(one: Row, read: int, on_page: Mapping[str, str], evidence: Sequence[Row]) -> RenderedCitation:
    if one["chunk_id"] is None:
        return RenderedCitation(
            one["marker"], None, f"points nowhere: {several(read, 'passage')} given", False, False
        )
    anchor = on_page.get(one["chunk_id"])
    place = f"characters {one['start']} to {one['end']}"
    holds = bool(evidence_spans(one["doc_id"], one["start"], one["end"], evidence))
    named = [" › ".join(one["section"] or ()), one["url"] or one["doc_id"], place]
    named += ["holds evidence"] if holds else []
    link = f"#{anchor}" if anchor else safe_link(one["url"])
    return RenderedCitation(one["marker"], link, ", ".join(filter(None, named)), True, holds)


@dataclass(frozen=True)
class ShownJudgement:
    """A replicate of a judgement; said: its value, or its status in brackets.

    statements: verdict (its word, else what it counts, else empty), text, of, reason
    """

    metric: str
    said: str
    good: bool
    reason: str
    statements: tuple[Mapping[str, str], ...] = ()
    left_out: int = 0


def judgements_of(rows: Iterable[Row], most: int) -> tuple[ShownJudgement, ...]:
    """rows: `schemas.JUDGEMENTS` with `judge` and `uncalibrated`; most: statements that are shown"""
    return tuple(_shown(row, most) for row in rows)


def _shown(row: Row, most: int) -> ShownJudgement:
    good = row["status"] == Status.OK
    again = f" (replicate {row['replicate']})" if row["replicate"] > 1 else ""
    again += f" ({UNCALIBRATED})" if row["uncalibrated"] else ""
    statements = row["statements"] or []
    return ShownJudgement(
        f"{row['judge']}.{row['metric']}{again}",
        number(row["value"]) if good else f"[{row['status']}]",
        good,
        row["reason"] or "",
        tuple(map(_statement, statements[:most])),
        max(0, len(statements) - most),
    )


def _statement(one: Row) -> dict[str, str]:
    """
    >>> _statement({"of": "answer", "text": "It sails.", "verdict": None, "value": 1.0, "reason": None})
    {'verdict': '1.000', 'text': 'It sails.', 'of': 'answer', 'reason': ''}
    """
    value = "" if one["value"] is None else number(one["value"])
    return {
        "verdict": one["verdict"] or value,
        **{name: one[name] or "" for name in ("text", "of", "reason")},
    }
