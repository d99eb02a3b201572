"""The first step of a retriever after which no candidate held a question's evidence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.query import Trace, TraceStep
from rag_assay.evals.retrieval.ranking import Rows
from rag_assay.warehouse.spans import Span, uncovered


class Loss(StrEnum):
    """What lost a piece of evidence, in the order of the way that a question takes."""

    CORPUS = "corpus"  # no document has it: never fetched, or dropped or changed in cleaning
    CHUNKING = "chunking"  # no chunk holds it whole, and no arm found all the pieces
    FILTER = "filter"  # a filter on the documents kept its chunks out
    CANDIDATES = "candidates"  # it was in no arm's candidates
    FUSION = "fusion"  # an arm had it above the cut, the fusion moved it below
    RERANKING = "reranking"  # a list had it above the cut, re-ranking moved it below
    CUT = "cut"  # below the `k` of a retriever or fusion, or cut off by a step
    BUDGET = "budget"  # did not fit into the token budget

    @property
    def label(self) -> str:
        return "cut at k" if self is Loss.CUT else str(self)


_BY_KIND = {
    "arm": Loss.CANDIDATES,
    "fuse": Loss.FUSION,
    "rerank": Loss.RERANKING,
    "filter": Loss.FILTER,
    "cut": Loss.CUT,
    "deliver": Loss.CUT,
    "budget": Loss.BUDGET,
}
_SHORTENING = frozenset({"fuse", "rerank", "cut", "deliver"})
_ORDERING = frozenset({"fuse", "rerank"})
Mask: TypeAlias = "npt.NDArray[np.bool_]"


class Fate(NamedTuple):
    """What became of one piece of evidence; found_at: how many delivered passages hold all of it"""

    lost_at: Loss | None
    step: str | None = None
    found_at: int | None = None


def losses_of(
    question: Mapping[str, Any], trace: Trace, delivered: Sequence[Span], index: OpenIndex
) -> list[dict[str, Any]]:
    """Return rows of `schemas.LOSSES` of a question whose ranking did not fail; delivered: best first"""
    return [
        {
            "question_id": question["question_id"],
            "evidence": number,
            "url": item["url"],
            **fate(item, trace.steps, delivered, index, trace.allowed)._asdict(),
        }
        for number, item in enumerate(question["evidence"] or ())
    ]


def fate(
    evidence: dict[str, Any],
    steps: Sequence[TraceStep],
    delivered: Sequence[Span],
    index: OpenIndex,
    allowed: Mask | None = None,
) -> Fate:
    """Return what became of a piece of evidence: a quote is held when the passages cover its characters,
    white space aside, a document when one is of it.
    """
    if evidence["reason"] is not None or evidence["doc_id"] is None:
        return Fate(Loss.CORPUS)
    if evidence["doc_id"] not in index.spans.rows:
        return Fate(Loss.CHUNKING)
    found_at = _found_at(evidence, delivered, index)
    if found_at:
        return Fate(None, found_at=found_at)
    near = _near(evidence, index)
    held = _held_after(evidence, steps, near, index)
    if any(held):

        def holds(step: TraceStep) -> bool:
            return _holds(evidence, _passages(evidence, step, near, index), index)

        return _lost_after(steps, held, len(delivered), holds)

    def held_by(rows: Rows) -> bool:
        return _holds(evidence, index.spans.at(rows), index)

    if allowed is not None and not held_by(near[allowed[near]]):
        return Fate(Loss.FILTER)
    whole = any(held_by(near[at : at + 1]) for at in range(len(near)))
    return Fate(Loss.CANDIDATES if whole else Loss.CHUNKING)


def _held_after(
    evidence: dict[str, Any], steps: Sequence[TraceStep], near: Rows, index: OpenIndex
) -> list[bool]:
    held: list[bool] = []
    for step in steps:
        # A step that widens what is delivered drops nothing: a chunk that it left out is part of another now.
        was = step.kind == "deliver" and bool(held) and held[-1]
        held.append(was or _holds(evidence, _passages(evidence, step, near, index), index))
    return held


def _passages(evidence: dict[str, Any], step: TraceStep, near: Rows, index: OpenIndex) -> list[Span]:
    # Where a step noted what it delivers of each row, that; else the rows' own contexts.
    spans = step.spans
    if spans is None:
        return index.spans.at(near[np.isin(near, step.rows)])
    doc_id = evidence["doc_id"]
    at = np.isin(step.rows, index.spans.rows[doc_id])
    return index.spans.within(step.rows[at], spans[at])


def _lost_after(
    steps: Sequence[TraceStep], held: Sequence[bool], n_delivered: int, holds: Callable[[TraceStep], bool]
) -> Fate:
    at = _next_step(steps, held)
    loser = None if at is None else steps[at]
    if loser is not None and loser.kind not in _SHORTENING:
        return Fate(_BY_KIND[loser.kind], loser.step)
    k = n_delivered if loser is None else len(loser.rows)
    earlier = steps[:at]
    inside = [holds(_first(step, k)) for step in earlier]
    demoting = _next_step(steps, inside) if any(inside) else None
    if demoting is not None and steps[demoting].kind in _ORDERING:
        return Fate(_BY_KIND[steps[demoting].kind], steps[demoting].step)
    return Fate(Loss.CUT, loser.step if loser else None)


def _next_step(steps: Sequence[TraceStep], held: Sequence[bool]) -> int | None:
    last = len(held) - 1 - held[::-1].index(True)
    following = range(last + 1, len(steps))
    if following and steps[last + 1].kind not in {"arm", "fuse"}:
        return last + 1
    return next((number for number in following if steps[number].kind == "fuse"), None)


def _first(step: TraceStep, k: int) -> TraceStep:
    return step._replace(rows=step.rows[:k], spans=None if step.spans is None else step.spans[:k])


def _near(evidence: dict[str, Any], index: OpenIndex) -> Rows:
    rows = index.spans.rows[evidence["doc_id"]]
    if evidence["start"] is None:
        return rows
    starts, ends = index.spans.contexts[rows].T
    return rows[(starts < evidence["end"]) & (ends > evidence["start"])]


def _holds(evidence: dict[str, Any], passages: Sequence[Span], index: OpenIndex) -> bool:
    if evidence["start"] is None:
        return any(passage.doc_id == evidence["doc_id"] for passage in passages)
    span = Span(evidence["doc_id"], evidence["start"], evidence["end"])
    return all(_is_space(index.passage(*gap), gap) for gap in uncovered(span, passages))


def _is_space(text: str, gap: Span) -> bool:
    # What lies beyond the last chunk is shorter here than in the document, and no white space.
    return len(text) == gap.end - gap.start and not text.strip()


def _found_at(evidence: dict[str, Any], delivered: Sequence[Span], index: OpenIndex) -> int | None:
    met: list[Span] = []
    for rank, passage in enumerate(delivered, 1):
        if _meets(passage, evidence):
            met.append(passage)
            if _holds(evidence, met, index):
                return rank
    return None


def _meets(passage: Span, evidence: dict[str, Any]) -> bool:
    if passage.doc_id != evidence["doc_id"]:
        return False
    whole = evidence["start"] is None
    return whole or (passage.start < evidence["end"] and passage.end > evidence["start"])
