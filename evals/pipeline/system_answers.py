"""What a system of the user's own says to the questions of a cell, and the ranking that its passages are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from rag_assay.assets.cleaning.corpus import corpus_documents
from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.generation.contract import Passage, Request
from rag_assay.evals.metrics.contract import Ranked
from rag_assay.evals.pipeline.gate_fitting import generation_context
from rag_assay.evals.pipeline.passages import AnswerWithContexts
from rag_assay.evals.study.cells import Cell
from rag_assay.evals.study.grid import read_questions_of
from rag_assay.evals.study.study import Study
from rag_assay.evals.systems.contract import ONLY_PASSAGES, CalledSystem
from rag_assay.evals.systems.passage_alignment import PassageAligner
from rag_assay.warehouse.artifacts import Artifact, ArtifactStore
from rag_assay.warehouse.call_cache import CallCache
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import Status
from rag_assay.warehouse.spans import Span

NO_PASSAGES = "the system tells no passages"
"""Why a metric of retrieval has no value where it gives an answer alone."""
NO_DOCUMENTS = "the study has no documents to look for the system's passages in"


def call_system(
    study: Study, cell: Cell, requests: Sequence[Request], inputs: Sequence[Artifact], work: BuildContext
) -> dict[str, AnswerWithContexts]:
    """Return by question id what a system says, its passages aligned; one in no document keeps its place."""
    system = study.generators[cell.generator]
    answers = system.answer(requests, generation_context(study, cell, work))
    given = [passage for answer in answers for passage in answer.passages or ()]
    columns = ("doc_id", "url", "title", "text")
    documents = corpus_documents(list(inputs), work).select(columns).rows(named=True) if given else []
    aligner = PassageAligner(documents, given)
    found: dict[str, AnswerWithContexts] = {}
    for request, answer in zip(requests, answers, strict=True):
        aligned = [aligner.align(one) for one in answer.passages or ()]
        passages = tuple(replace(one.passage, chunk=f"context {rank}") for rank, one in enumerate(aligned, 1))
        similarities = tuple(one.similarity for one in aligned)
        told = None if answer.passages is None else passages
        found[request.question_id or ""] = AnswerWithContexts(
            replace(answer, passages=told), passages, similarities
        )
    return found


def forget_answers(study: Study, home: Home) -> list[str]:
    """Let the next run call the systems of a study for all questions; return their names."""
    store, cache = ArtifactStore(home), CallCache(home)
    questions = read_questions_of(study)
    for cell in study.runs():
        system = study.generators.get(cell.generator)
        if not isinstance(system, CalledSystem):
            continue
        asked = (system.call_of(request_of(row, []), cell.replicate - 1) for row in questions)
        cache.forget(one.id for one in asked if cache.get(one.id))
        if answers := store.current("answers", cell.key):
            store.remove("answers", answers.identity)
    return [name for name, one in study.systems.items() if isinstance(one, CalledSystem)]


def request_of(question: Mapping[str, Any], passages: Sequence[Passage]) -> Request:
    conversation = tuple(question["conversation"] or ())
    return Request(
        question["question"],
        question["language"],
        conversation,
        tuple(passages),
        question["question_id"],
        question["asked_at"],
    )


def alignment_counts(found: Mapping[str, AnswerWithContexts]) -> dict[str, int]:
    counts = Counter(
        _how(passage, similarity)
        for one in found.values()
        for passage, similarity in zip(one.passages, one.similarities, strict=True)
    )
    return dict(sorted(counts.items()))


def _how(passage: Passage, similarity: float | None) -> str:
    if not passage.document:
        return "in no document"
    if similarity is None:
        return "document named, text not in it"
    return "word for word" if similarity == 1 else "similar"


def ranked_by_system(
    answers: pl.DataFrame, contexts: Mapping[str, Sequence[Passage]], *, has_documents: bool = True
) -> tuple[dict[str, tuple[Span, ...]], dict[str, Ranked]]:
    """Return the spans of each question's passages, and how its ranking ended."""
    spans = {
        question: tuple(
            Span(one.document or f"{one.chunk} of {question}, in no document", one.start, one.end)
            for one in passages
        )
        for question, passages in contexts.items()
    }
    known = {question for question, found in contexts.items() if any(one.document for one in found)}
    ended: dict[str, Ranked] = {}
    rows = answers.select("question_id", "status", "reason", "chunk_ids", "seconds").iter_rows()
    for question, status, reason, chunks, seconds in rows:
        if question in known or chunks == []:
            timed = seconds if reason == ONLY_PASSAGES else None  # else it is of the answer, too
            ended[question] = Ranked(Status.OK, seconds=timed)
        elif question in spans:
            lost = f"the system's passages ({len(spans[question])}) are in no document"
            ended[question] = Ranked(Status.NOT_RUN, lost if has_documents else NO_DOCUMENTS)
        elif chunks is None and (status in {Status.OK, Status.REFUSED} or reason == ONLY_PASSAGES):
            ended[question] = Ranked(Status.NOT_RUN, NO_PASSAGES)
        else:
            ended[question] = Ranked(Status(status), reason)
    return spans, ended
