"""What a cell's generator may use, and its gate, fitted on train questions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from rag_assay.assets.embedding.embedder import EmbedderRecipe
from rag_assay.assets.embedding.hashing import Hashing
from rag_assay.assets.engine.stage import BuildContext
from rag_assay.assets.recipes.build_half import TOKENIZER
from rag_assay.evals.generation.contract import GenerationContext, Generator, Request, Retrieve
from rag_assay.evals.generation.gate import FittedThreshold, feature_values, fit_threshold
from rag_assay.evals.pipeline.passages import passage_of
from rag_assay.evals.pipeline.stage_inputs import budget_of, progress_of, read_questions
from rag_assay.evals.retrieval.ranking import Mask
from rag_assay.evals.study.cells import Cell, whole_of
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.artifacts import Artifact
from rag_assay.warehouse.inference.budget import Budget
from rag_assay.warehouse.inference.call_tags import Purpose
from rag_assay.warehouse.schemas import Status

if TYPE_CHECKING:
    from rag_assay.evals.pipeline.retrieval import OpenRetrieval
    from rag_assay.evals.retrieval.query_runner import QueryRunner


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
    asking = GenerationRequest(
        cell, study.seed, tokenizer, embedder, study.generators[cell.generator].budget_limit
    )
    generation = generation_for(asking, budget_of(study, work), work, retrieve)
    return replace(generation, folder=study.base)


class GenerationRequest(NamedTuple):
    """Whose answers are requested, and by what; ``limit``: US dollars of the budget, None: all of it."""

    cell: Cell
    seed: int
    tokenizer: str
    embedder: EmbedderRecipe
    limit: float | None


def generation_for(
    asking: GenerationRequest, budget: Budget, work: BuildContext, retrieve: Retrieve | None = None
) -> GenerationContext:
    from rag_assay.evals.pipeline.run_resources import RunResources

    cell = asking.cell
    if asking.limit is not None:
        budget = work.budgets.of((whole_of(cell.study), cell.generator), asking.limit, within=budget)
    generation = work.resource(RunResources).generation(
        asking.embedder, asking.tokenizer, budget, asking.seed, cell.replicate - 1, progress_of(cell, work)
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
            passages = tuple(
                passage_of(index, hit.chunk_id, hit.start, hit.end, hit.score) for hit in found.hits[:read]
            )
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
