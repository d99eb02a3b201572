"""One cell of a study, opened to be asked: chat and server use the code of the stages `rankings` and
`answers`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import zip_longest
from typing import Any, Literal

from rag_assay.assets.chunks import Chunks
from rag_assay.assets.documents import Documents
from rag_assay.assets.embeddings import Embeddings
from rag_assay.assets.engine.stage import BuildContext, Stage, is_by_recipe_of_now
from rag_assay.assets.indexes import Indexes
from rag_assay.evals.generation.contract import Answer, GenerationContext, Generator, Passage, Request
from rag_assay.evals.generation.quotation import quoted_documents
from rag_assay.evals.pipeline.passages import Headings, headings_of, passages_of
from rag_assay.evals.pipeline.retrieval import (
    CellParts,
    FitInputs,
    OpenRetrieval,
    RetrievalInputs,
    generation_for,
    open_retrieval,
    parts_of_cell,
    with_fitted_gate,
)
from rag_assay.evals.pipeline.run_resources import RunResources
from rag_assay.evals.query_transforms.follow_up import FollowUp, own_words
from rag_assay.evals.query_transforms.time_frame import TimeFrame
from rag_assay.evals.question_sets.losses import losses_of
from rag_assay.evals.retrieval.contract import OpenTransform, QueryTransform, Retriever, Searcher
from rag_assay.evals.retrieval.query import Query, QueryInterpretation, Removal
from rag_assay.evals.retrieval.query_runner import QueryResult
from rag_assay.evals.retrieval.ranking import Ranking
from rag_assay.evals.study.cells import NO_GENERATOR, Cell
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.artifacts import Artifact, ArtifactStore
from rag_assay.warehouse.closing import Closeable
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.inference.local_llm import free_cores
from rag_assay.warehouse.recipe import nested_recipes
from rag_assay.warehouse.schemas import Status


class ChatSearcher(Searcher):
    """Reads a question as a person puts it in a chat, then searches.

    Args:
        transforms: opened; each makes one question of one.
        searcher: what searches; it belongs to its opener, and is closed with this one.
    """

    def __init__(self, transforms: Sequence[OpenTransform], searcher: Searcher) -> None:
        self._transforms = transforms
        self._searcher = searcher

    def search(self, query: Query) -> Ranking:
        for transform in self._transforms:
            (query,) = transform.read(query)
        return self._searcher.search(query)

    def close(self) -> None:
        self._searcher.close()


def for_chat(retrieval: OpenRetrieval) -> OpenRetrieval:
    """Return a retrieval that reads follow-ups and windows of publication, by rules where it does not."""
    added = [one() for one in (FollowUp, TimeFrame) if not _holds(retrieval.retriever, one)]
    if not added:
        return retrieval
    transforms = [one.open(retrieval.index, retrieval.context) for one in added]
    return replace(retrieval, searcher=ChatSearcher(transforms, retrieval.searcher))


def _holds(retriever: Retriever, kind: type[QueryTransform]) -> bool:
    return any(isinstance(one, kind) for one in nested_recipes(retriever))


Decliner = Literal["no_passages", "gate", "min_score", "model"]
"""The retriever, which found nothing; the gate, by its feature; the least score, which no
sentence reached; the language model, which said so."""


def decliner_of(generator: Generator, answer: Answer) -> Decliner | None:
    if answer.status is Status.NO_CONTEXT:
        return "no_passages"
    if answer.status is not Status.REFUSED:
        return None
    if generator.gate is not None and generator.gate.refusal(answer.confidence) is not None:
        return "gate"
    return "model" if generator.chat is not None else "min_score"


Row = dict[str, Any]


@dataclass(frozen=True)
class PipelineResult:
    """What one cell made of one question; passages: all hits; read: how many the generator reads; losses:
    `schemas.LOSSES`; declined: what said that the documents do not say
    """

    cell: Cell
    question: Row
    found: QueryResult
    passages: tuple[Passage, ...]
    answer: Answer | None
    read: int
    losses: tuple[Row, ...]
    declined: Decliner | None = None

    @property
    def understood(self) -> tuple[QueryInterpretation, ...]:
        return tuple(self.found.trace.understood.values())

    @property
    def standalone(self) -> str:
        rewritten = [one.value for one in self.understood if one.step == "follow_up" and one.status == "used"]
        return rewritten[-1] if rewritten else str(self.question["question"])


@dataclass(frozen=True)
class Pipeline(Closeable):
    """A cell that is open; what it shares with others belongs to the work that it was opened with.
    follows_up: follow-ups are read by rules in front of the cell, whose recipe does not read them
    """

    cell: Cell
    retrieval: OpenRetrieval
    generator: Generator | None
    context: GenerationContext | None
    headings: Headings | None = None
    follows_up: bool = False

    @property
    def declines(self) -> bool:
        """Whether it may say that the documents do not say; a cell that only quotes answers anything."""
        return self.generator is not None and self.generator.declines

    def for_chat(self) -> Pipeline:
        """Return a pipeline that reads follow-ups and windows of publication ("published before 2005"), by
        rules where the cell does not; it shares all with this one: close one of them.
        """
        if isinstance(self.retrieval.searcher, ChatSearcher):
            return self
        follows_up = not _holds(self.retrieval.retriever, FollowUp)
        return replace(self, retrieval=for_chat(self.retrieval), follows_up=follows_up)

    def ask(
        self,
        text: str,
        *,
        asked_at: str | None = None,
        conversation: Sequence[str] = (),
        without: Collection[Removal] = (),
    ) -> PipelineResult:
        """Answer a question that a person asks; ``asked_at``: ISO 8601, for words such as "yesterday"."""
        question: Row = {
            "question_id": "asked",
            "question": text,
            "language": None,
            "asked_at": asked_at,
            "conversation": list(conversation),
            "evidence": [],
        }
        return self.ask_row(question, without=without)

    def ask_row(self, question: Row, *, without: Collection[Removal] = ()) -> PipelineResult:
        result = self.search_row(question, without=without)
        if self.generator is None or self.context is None:
            return result
        if result.found.status is not Status.OK:
            return replace(result, answer=Answer(Status.NOT_RUN, "its ranking failed"))
        request = self._request(result, without)
        (answer,) = self.generator.answer([request], self.context)
        if answer.passages is None and request.passages != result.passages[: result.read]:
            answer = replace(answer, passages=request.passages)
        return replace(result, answer=answer, declined=decliner_of(self.generator, answer))

    def search_row(self, question: Row, *, without: Collection[Removal] = ()) -> PipelineResult:
        found = self.retrieval.ask(question, without)
        index = self.retrieval.index
        passages = passages_of(index, found.hits, self.headings)
        losses: list[Row] = []
        if found.status is Status.OK:
            losses = losses_of(question, found.trace, [hit.span for hit in found.hits], index)
        read = self.generator.n_read([len(one.text) for one in passages]) if self.generator else 0
        return PipelineResult(self.cell, question, found, passages, None, read, tuple(losses))

    def _request(self, result: PipelineResult, without: Collection[Removal]) -> Request:
        question, asked, own = result.question, result.question["question"], None
        passages = result.passages
        if self.follows_up:
            passages = _quoted_first(passages, question["conversation"] or ())
        # What quotes knows nothing of a conversation; a model is given it with the question.
        if self.follows_up and self.generator is not None and self.generator.chat is None:
            asked = result.standalone
            own = own_words(asked) if asked != question["question"] else asked
        return Request(
            asked,
            question["language"],
            tuple(question["conversation"] or ()),
            passages[: result.read],
            question["question_id"],
            question["asked_at"],
            tuple(without),
            own_words=own if own != asked else None,
        )

    def close(self) -> None:
        self.retrieval.close()


def _quoted_first(passages: Sequence[Passage], conversation: Sequence[str]) -> tuple[Passage, ...]:
    """Alternate the passages of the documents that the last answer quotes with the others."""
    quoted = quoted_documents(passages, conversation)
    parts = (
        [one for one in passages if one.document in quoted],
        [one for one in passages if one.document not in quoted],
    )
    return tuple(one for pair in zip_longest(*parts) for one in pair if one is not None)


def open_pipeline(study: Study, cell: Cell, work: BuildContext) -> Pipeline:
    if cell.imported:
        raise InputError(
            f"the answers of {study.study} come from sheets, and nothing more can be asked of it; "
            "`assay show` shows what they have"
        )
    if not cell.reads_ranking:
        what = study.generators[cell.generator].kind
        raise InputError(
            f"{cell.generator} ({what}) reads no ranking, and answers the study's questions only; "
            "`assay show` shows what it said. Name another cell with --cell."
        )
    work.resource(RunResources).local_threads = free_cores()  # somebody waits for one answer
    grid = Grid([study])
    inputs = _inputs(grid, cell, work)
    retrieval = open_retrieval(study, cell, inputs, work)
    make_ready(retrieval)
    if cell.generator == NO_GENERATOR:
        return Pipeline(cell, retrieval, None, None)
    generator, _ = with_fitted_gate(
        study, cell, FitInputs(inputs.test, inputs.train, lambda: retrieval), work
    )
    headings = None
    if generator.chat:
        key = grid.index_key(cell).rpartition(".")[0]
        headings = headings_of(_current(study, "chunks", key, work), work)
    return pipeline_of(replace(parts_of_cell(study, cell), generator=generator), retrieval, headings, work)


def pipeline_of(
    parts: CellParts, retrieval: OpenRetrieval, headings: Headings | None, work: BuildContext
) -> Pipeline:
    cell, generator = parts.cell, parts.generator
    if generator is None:
        return Pipeline(cell, retrieval, None, None)
    retrieval = replace(retrieval, headings=headings)
    budget, limit = work.budgets.of(cell.study, parts.caps), generator.budget_limit
    context = generation_for(
        cell, parts.seed, parts.tokenizer, parts.embedder, budget, limit, work, retrieval.retrieve
    )
    return Pipeline(cell, retrieval, generator, context, headings)


def make_ready(retrieval: OpenRetrieval) -> None:
    if retrieval.embedder:
        retrieval.embedder.embedder.embed(["warm up"])


def _inputs(grid: Grid, cell: Cell, work: BuildContext) -> RetrievalInputs:
    study = grid.studies[cell.study]
    key = grid.index_key(cell)
    chunks = key.rpartition(".")[0]
    stages: list[tuple[Stage, list[str]]] = [
        (Documents(grid.build), list(study.corpus.sources)),
        (Chunks(grid.build), [chunks]),
        (Embeddings(grid.build), [key]),
        (Indexes(grid.build), [key]),
    ]
    for stage, keys in stages:
        for one in keys:
            _current(study, stage.name, one, work)
            if not is_by_recipe_of_now(stage, one, work.store):
                raise InputError(
                    f"{stage.name} of {one} were built by another recipe than {study.path} has now; "
                    f"run `assay run {study.path}` first, which computes only what is new"
                )
    index = _current(study, "indexes", key, work)
    damage = work.damage(index)
    if damage:
        raise InputError(f"the index {key} is damaged ({damage}); `assay run {study.path}` builds it again")
    is_fitted = cell.generator != NO_GENERATOR and study.generators[cell.generator].tunes
    if not (study.retrievers[cell.retriever].needs_tuning or is_fitted):
        return RetrievalInputs(index, [], [])
    test, train = (
        [_current(study, "questions", one, work) for one in keys]
        for keys in (grid.set_keys(study.study), grid.train_keys(study.study))
    )
    return RetrievalInputs(index, test, train)


def _current(study: Study, stage: str, key: str, work: BuildContext) -> Artifact:
    store: ArtifactStore = work.store
    artifact = store.current(stage, key)
    if artifact is None:
        raise InputError(f"{stage} of {key} were not built yet; run `assay run {study.path}` first")
    return artifact


def record_of(result: PipelineResult) -> dict[str, Any]:
    found = result.found
    return {
        "cell": result.cell.key,
        "question": result.question["question"],
        "status": str(found.status),
        "reason": found.reason,
        "seconds": found.spent.seconds if found.spent else None,
        "passages": [asdict(passage) for passage in result.passages],
        "understood": understood_records(result),
        "trace": [
            {"step": step.step, "kind": step.kind, "candidates": len(step.rows)} for step in found.trace.steps
        ],
        "notes": [note._asdict() for note in found.trace.notes],
        "losses": [dict(loss) for loss in result.losses],
        "declined": result.declined,
        "answer": None if result.answer is None else asdict(result.answer),
    }


def understood_records(result: PipelineResult) -> list[dict[str, Any]]:
    return [{**one._asdict(), "removable": one.is_removable} for one in result.understood]
