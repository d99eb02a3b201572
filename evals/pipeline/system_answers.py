"""What a system says to a cell's questions, where its passages are in the documents, and their ranking."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import polars as pl

from rag_assay.assets.cleaning.corpus import corpus_documents
from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.generation.contract import Passage, Request
from rag_assay.evals.metrics.contract import Ranked
from rag_assay.evals.pipeline.passages import AnswerWithContexts
from rag_assay.evals.pipeline.retrieval import generation_context
from rag_assay.evals.question_sets.alignment import Alignment, WordedText, find_quote, most_similar
from rag_assay.evals.question_sets.evidence_resolution import DocumentMatch, Lookup
from rag_assay.evals.study.cells import Cell
from rag_assay.evals.study.grid import read_questions_of
from rag_assay.evals.study.study import Study
from rag_assay.evals.systems.contract import ONLY_PASSAGES, CalledSystem
from rag_assay.warehouse.artifacts import Artifact, ArtifactStore
from rag_assay.warehouse.call_cache import CallCache
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import Status
from rag_assay.warehouse.spans import Span


class AlignedPassage(NamedTuple):
    """A passage; empty id: in no document; similarity to its place there; None: not found"""

    passage: Passage
    similarity: float | None


class PassageAligner:
    """The documents of a corpus, in which passages are found.

    A passage that names a document by its id or URL is looked for there; by the end of a URL that no other
    document has, there first; else its text is looked for in all documents. A document that is named without
    a text stands for its whole text.

    Args:
        documents: doc_id, url, title and text of each.
        passages: all that will be aligned.
    """

    def __init__(self, documents: Sequence[Mapping[str, Any]], passages: Iterable[Passage]) -> None:
        self._documents = documents
        self._wanted = list(dict.fromkeys(one.text for one in passages if one.text))
        self._by_id = {str(one["doc_id"]): one for one in documents}
        self._by_url: dict[str, list[Mapping[str, Any]]] = {}
        for one in documents:
            self._by_url.setdefault(_plain(one["url"]), []).append(one)
        self._found: dict[str, DocumentMatch | None] = {}
        self._worded = lru_cache(8)(WordedText)

    def align(self, passage: Passage) -> AlignedPassage:
        named = self._named(passage)
        by_end = self._named_by_end(passage) if named is None else None
        named = named or by_end
        if not passage.text.strip():
            if named is None:
                return AlignedPassage(_placed(passage, None), None)
            whole = Alignment(0, len(named["text"]), 1.0)
            return AlignedPassage(_placed(passage, named, whole, named["text"]), 1.0)
        if named is not None:
            place = self._within(named["text"], passage.text)
            if place is None and by_end is not None and (found := self._anywhere(passage.text)):
                return self._found_at(passage, found)
            return AlignedPassage(_placed(passage, named, place), place and place.similarity)
        found = self._anywhere(passage.text)
        if found is None:
            return AlignedPassage(_placed(passage, None), None)
        return self._found_at(passage, found)

    def _found_at(self, passage: Passage, found: DocumentMatch) -> AlignedPassage:
        document = self._documents[found.document]
        return AlignedPassage(_placed(passage, document, found.place), found.place.similarity)

    def _named(self, passage: Passage) -> Mapping[str, Any] | None:
        if passage.document in self._by_id:
            return self._by_id[passage.document]
        for name in filter(None, (passage.url, passage.document)):
            if found := self._by_url.get(_plain(name)):
                return found[0]
        return None

    def _named_by_end(self, passage: Passage) -> Mapping[str, Any] | None:
        is_end = "/" in passage.document or "." in passage.document  # else it is an id, such as 1
        for name in filter(None, (passage.url, passage.document if is_end else None)):
            plain = _plain(name)
            ends = self._by_end.get(plain.rpartition("/")[2], [])
            alike = [one for one in ends if f"/{_plain(one['url'])}".endswith(f"/{plain.lstrip('/')}")]
            if len(alike) == 1:
                return alike[0]
        return None

    @cached_property
    def _by_end(self) -> dict[str, list[Mapping[str, Any]]]:
        found: dict[str, list[Mapping[str, Any]]] = {}
        for one in self._documents:
            found.setdefault(_plain(one["url"]).rpartition("/")[2], []).append(one)
        return found

    def _anywhere(self, text: str) -> DocumentMatch | None:
        if text not in self._found:
            self._found[text] = self._lookup.quote(text)
        return self._found[text]

    def _within(self, text: str, quote: str) -> Alignment | None:
        if span := find_quote(text, quote):
            return Alignment(*span, 1.0)
        return most_similar(self._worded(text), quote)

    @cached_property
    def _lookup(self) -> Lookup:
        return Lookup([one["text"] for one in self._documents], self._wanted)


def _plain(url: str) -> str:
    """Return a URL as it is compared: without a fragment, a `/` at its end, `./` and backslashes."""
    return url.replace("\\", "/").partition("#")[0].removeprefix("./").rstrip("/")


def _placed(
    passage: Passage,
    document: Mapping[str, Any] | None,
    place: Alignment | None = None,
    text: str | None = None,
) -> Passage:
    return Passage(
        text=passage.text if text is None else text,
        document="" if document is None else document["doc_id"],
        title=passage.title or (document["title"] if document else None),
        url=document["url"] if document else passage.url,
        start=place.start if place else 0,
        end=place.end if place else 0,
        score=passage.score,
    )


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
