"""A cell's retriever and generator, made ready: tuned and fitted on train questions, opened on the index."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from rag_assay.assets.embedding.embedder import EmbedderRecipe
from rag_assay.assets.embedding.hashing import Hashing
from rag_assay.assets.engine.stage import BuildContext
from rag_assay.assets.recipes.build_half import TOKENIZER
from rag_assay.evals.generation.contract import GenerationContext, Generator, Request, Retrieve, Retrieved
from rag_assay.evals.generation.gate import FittedThreshold, feature_values, fit_threshold
from rag_assay.evals.metrics.contract import RetrievalMetric
from rag_assay.evals.pipeline.passages import Headings, passages_of
from rag_assay.evals.pipeline.stage_inputs import budget_of, progress_of, read_questions
from rag_assay.evals.retrieval.context import RetrievalContext
from rag_assay.evals.retrieval.contract import Retriever, Searcher
from rag_assay.evals.retrieval.query import Note, Query, Removal
from rag_assay.evals.retrieval.ranking import Mask
from rag_assay.evals.study.cells import NO_GENERATOR, Cell, whole_of
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.artifacts import Artifact
from rag_assay.warehouse.closing import Closeable
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.inference import models
from rag_assay.warehouse.inference.budget import Budget, Caps
from rag_assay.warehouse.inference.call_tags import Purpose
from rag_assay.warehouse.schemas import Status

if TYPE_CHECKING:
    from rag_assay.assets.embedding.cached_embedder import CachedEmbedder
    from rag_assay.evals.pipeline.run_resources import RunResources
    from rag_assay.evals.retrieval.fusion_tuning import Chosen, TrainCase
    from rag_assay.evals.retrieval.index import OpenIndex
    from rag_assay.evals.retrieval.query_runner import QueryResult, QueryRunner
    from rag_assay.evals.retrieval.query_vectors import QueryVector


@dataclass(frozen=True)
class CellParts:
    """All that a cell needs beside its index."""

    cell: Cell
    seed: int
    tokenizer: str
    embedder: EmbedderRecipe
    retriever: Retriever
    generator: Generator | None
    caps: Caps | None = None


def parts_of_cell(study: Study, cell: Cell) -> CellParts:
    return CellParts(
        cell,
        study.seed,
        study.chunkings[cell.chunking].tokenizer,
        study.embedders[cell.embedder],
        study.retrievers[cell.retriever],
        None if cell.generator == NO_GENERATOR else study.generators[cell.generator],
        study.budget.caps if study.budget else None,
    )


@dataclass(frozen=True)
class RetrievalInputs:
    """What a cell's retriever is opened on; question sets to tune on are empty where nothing is tuned."""

    index: Artifact
    test: list[Artifact]
    train: list[Artifact]


@dataclass(frozen=True)
class TuningRecord:
    """What was chosen on train questions, and what query transforms remarked on them."""

    chosen: tuple[Chosen, ...]
    left_out: int
    notes: tuple[Note, ...]


@dataclass(frozen=True)
class OpenRetrieval:
    """A cell's retriever, opened, with weights in place of `tuned`; no embedder where it needs no vector."""

    searcher: Searcher
    context: RetrievalContext
    resources: RunResources
    index: OpenIndex
    retriever: Retriever
    embedder: CachedEmbedder | None
    tuning: TuningRecord | None = None
    headings: Headings | None = None

    def ask(self, question: Mapping[str, Any], without: Iterable[Removal] = ()) -> QueryResult:
        from rag_assay.evals.retrieval.query_vectors import embed_query

        text = question["question"]
        vectors = {text: embed_query(text, self.embedder, self.resources.clock)} if self.embedder else {}
        return self.runner(vectors).ask(question, without=without)

    def retrieve(self, request: Request, query: str, most: int) -> Retrieved:
        asked = {
            "question_id": request.question_id or "asked",
            "question": query,
            "asked_at": request.asked_at,
            "conversation": list(request.conversation),
        }
        found = self.ask(asked, request.without)
        if found.status is not Status.OK:
            return Retrieved(reason=found.reason)
        passages = passages_of(self.index, found.hits[:most], self.headings)
        return Retrieved(passages, found.spent.seconds if found.spent else None)

    def runner(self, vectors: Mapping[str, QueryVector]) -> QueryRunner:
        from rag_assay.evals.retrieval.query_runner import QueryRunner

        return QueryRunner(self.searcher, self.index, vectors, self.resources.clock)

    def close(self) -> None:
        self.searcher.close()


class LateRetrieval(Closeable):
    """A cell's retriever that is opened when it is first asked; use it as a context manager, or close it."""

    def __init__(self, open_it: Callable[[], OpenRetrieval]) -> None:
        self._open = open_it
        self._opened: OpenRetrieval | None = None

    def retrieve(self, request: Request, query: str, most: int) -> Retrieved:
        try:
            return self.opened.retrieve(request, query, most)
        except InputError as error:
            return Retrieved(reason=str(error))

    @property
    def opened(self) -> OpenRetrieval:
        self._opened = self._opened or self._open()
        return self._opened

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None


def search_recipes(study: Study, cell: Cell) -> dict[str, str]:
    recipe = study.retrievers[cell.retriever]
    tokenizer = models.digest(study.chunkings[cell.chunking].tokenizer)
    found = {f"tokenizer.{cell.study}.{cell.chunking}": tokenizer}
    if recipe.needs_vector:
        found[f"queries.{cell.study}.{cell.embedder}"] = study.embedders[cell.embedder].query_revision()
    if recipe.needs_tuning:
        from rag_assay.evals.retrieval.fusion_tuning import CODE_VERSION as TUNING

        metrics = [metric.name for metric in study.tuning_metrics]
        found[f"tuning.{cell.study}"] = digest([metrics, TUNING])
    return found


def open_retrieval(study: Study, cell: Cell, inputs: RetrievalInputs, work: BuildContext) -> OpenRetrieval:
    from rag_assay.evals.pipeline.run_resources import RunResources
    from rag_assay.evals.retrieval.fusion_tuning import Bench, apart, tune_retriever

    resources = work.resource(RunResources)
    parts = parts_of_cell(study, cell)
    retriever = parts.retriever
    index = resources.index(inputs.index)
    if not retriever.needs_tuning:
        return open_tuned_retrieval(parts, index, inputs.index.identity, work)
    known = read_questions(inputs.train, work)
    train = apart(known, read_questions(inputs.test, work))
    work.progress(f"tuning {cell.ranking} on {len(train)} train questions", 0, 0)
    metric = tuning_metric(study, train)
    cases = _cases(retriever, train, metric, resources.embedder(parts.embedder))
    context = _search_context(parts, inputs.index.identity, work)
    tuning = tune_retriever(retriever, cases, Bench(index, context, metric))
    notes = tuple(note for case in cases for note in case.query.trace.notes)
    record = TuningRecord(tuning.chosen, len(known) - len(train), notes)
    parts = replace(parts, retriever=tuning.retriever)
    return replace(open_tuned_retrieval(parts, index, inputs.index.identity, work), tuning=record)


def open_tuned_retrieval(
    parts: CellParts, index: OpenIndex, identity: str, work: BuildContext
) -> OpenRetrieval:
    from rag_assay.evals.pipeline.run_resources import RunResources
    from rag_assay.evals.retrieval.fusion import SharedSearcher

    resources = work.resource(RunResources)
    context = _search_context(parts, identity, work)
    embedder = resources.embedder(parts.embedder) if parts.retriever.needs_vector else None
    searcher = SharedSearcher(parts.retriever, index, context)
    return OpenRetrieval(searcher, context, resources, index, parts.retriever, embedder)


def _search_context(parts: CellParts, index: str, work: BuildContext) -> RetrievalContext:
    from rag_assay.evals.pipeline.run_resources import RunResources

    budget = work.budgets.of(parts.cell.study, parts.caps)
    found = work.resource(RunResources).retrieval(index, parts.embedder, parts.tokenizer, budget)
    return replace(found, purpose=Purpose("understanding", parts.cell.study, parts.cell.ranking))


def tuning_metric(study: Study, train: pl.DataFrame) -> RetrievalMetric:
    rows = train.to_dicts()
    for metric in study.tuning_metrics:
        if any(map(metric.applies, rows)):
            return metric
    raise InputError("no train question has evidence: there is nothing to tune on")


def _cases(
    retriever: Retriever, questions: pl.DataFrame, metric: RetrievalMetric, embedder: CachedEmbedder
) -> list[TrainCase]:
    from rag_assay.evals.question_sets.evidence import gold_of
    from rag_assay.evals.retrieval.fusion_tuning import TrainCase

    answerable = questions.filter([metric.applies(row) for row in questions.iter_rows(named=True)])
    texts = answerable["question"].to_list()
    vectors = embedder.queries(texts).vectors if retriever.needs_vector else [None] * len(texts)
    return [
        TrainCase(
            Query(
                row["question"],
                vector,
                row["asked_at"],
                tuple(row["conversation"] or ()),
                question_id=row["question_id"],
            ),
            gold_of(row),
        )
        for row, vector in zip(answerable.iter_rows(named=True), vectors, strict=True)
    ]


def parts_of(study: Study, cell: Cell) -> tuple[str, EmbedderRecipe]:
    if cell.reads_ranking:
        return study.chunkings[cell.chunking].tokenizer, study.embedders[cell.embedder]
    tokenizers = [one.tokenizer for one in study.chunkings.values()]
    embedders = iter(study.embedders.values())
    return next(iter(tokenizers), TOKENIZER), next(embedders, None) or Hashing.model_validate({})


def generation_context(
    study: Study, cell: Cell, work: BuildContext, retrieve: Retrieve | None = None
) -> GenerationContext:
    tokenizer, embedder = parts_of(study, cell)
    budget, limit = budget_of(study, work), study.generators[cell.generator].budget_limit
    generation = generation_for(cell, study.seed, tokenizer, embedder, budget, limit, work, retrieve)
    return replace(generation, folder=study.base)


def generation_for(  # noqa: PLR0913, PLR0917 -- what a context is made of
    cell: Cell,
    seed: int,
    tokenizer: str,
    embedder: EmbedderRecipe,
    budget: Budget,
    limit: float | None,
    work: BuildContext,
    retrieve: Retrieve | None = None,
) -> GenerationContext:
    """limit: US dollars of the budget to spend; None: all"""
    from rag_assay.evals.pipeline.run_resources import RunResources

    if limit is not None:
        budget = work.budgets.of((whole_of(cell.study), cell.generator), limit, within=budget)
    generation = work.resource(RunResources).generation(
        embedder, tokenizer, budget, seed, cell.replicate - 1, progress_of(cell, work)
    )
    return replace(generation, purpose=Purpose("answers", cell.study, cell.key), retrieve=retrieve)


class GateRecord(NamedTuple):
    """What was fitted on train questions; ``failed``: searches that were passed over."""

    fitted: FittedThreshold
    left_out: int
    failed: int


@dataclass(frozen=True)
class FitInputs:
    """What a gate is fitted on; `train` is empty where nothing is fitted."""

    test: list[Artifact]
    train: list[Artifact]
    retrieval: Callable[[], OpenRetrieval]


def with_fitted_gate(
    study: Study, cell: Cell, inputs: FitInputs, work: BuildContext
) -> tuple[Generator, GateRecord | None]:
    from rag_assay.evals.pipeline.run_resources import RunResources
    from rag_assay.evals.retrieval.fusion_tuning import apart

    generator = study.generators[cell.generator]
    gate = generator.gate
    if gate is None or not gate.needs_tuning:
        return generator, None
    known = read_questions(inputs.train, work)
    train = apart(known, read_questions(inputs.test, work))
    retrieval = inputs.retrieval()
    texts, recipe = train["question"].to_list(), study.embedders[cell.embedder]
    resources = work.resource(RunResources)
    runner = retrieval.runner(resources.query_vectors(texts, recipe) if retrieval.embedder else {})
    tried = _tried(generator, train, runner, work)
    embed = generation_context(study, cell, work).embed
    values = feature_values(gate.feature, [*tried.answerable, *tried.unanswerable], embed)
    kinds = values[: len(tried.answerable)], values[len(tried.answerable) :]
    # Without passages there is nothing to be gated.
    yes, no = ([value for value in kind if value is not None] for kind in kinds)
    found = fit_threshold(gate.feature, yes, no, gate.wrong_refusals)
    record = GateRecord(found, len(known) - len(train), tried.failed)
    return generator.model_copy(update={"gate": gate.at(found.threshold)}), record


class _Tried(NamedTuple):
    """Train questions with what was found for them, with and without an answer in the documents."""

    answerable: list[Request]
    unanswerable: list[Request]
    failed: int


def _tried(generator: Generator, train: pl.DataFrame, runner: QueryRunner, work: BuildContext) -> _Tried:
    from rag_assay.evals.question_sets.evidence import gold_of

    index = runner.index
    documents = index.column("doc_id")
    answerable: list[Request] = []
    unanswerable: list[Request] = []
    failed = 0
    for number, row in enumerate(train.iter_rows(named=True), 1):
        gold = [*gold_of(row).documents]
        held: Mask = documents.is_in(gold).to_numpy()
        tries: list[tuple[list[Request], Mask | None]] = [
            (answerable if row["answerable"] else unanswerable, None)
        ]
        tries += [(unanswerable, ~held)] if row["answerable"] and held.any() else []
        for requests, allowed in tries:
            found = runner.ask(row, remembered=allowed is None, allowed=allowed)
            read = generator.n_read([hit.end - hit.start for hit in found.hits])
            passages = passages_of(index, found.hits[:read])
            failed += found.status is not Status.OK
            requests.append(Request(row["question"], passages=passages).within(generator.context_tokens))
        if number % 25 == 0:
            work.progress("fitting the gate on train questions", number, len(train))
    return _Tried(answerable, unanswerable, failed)


def record_of_gate(record: GateRecord | None) -> dict[str, Any]:
    if record is None:
        return {}
    found = {**record.fitted._asdict(), "failed": record.failed, "train_questions_left_out": record.left_out}
    return {"gate": found}
