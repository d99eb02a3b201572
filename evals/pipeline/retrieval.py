"""A cell's retriever, made ready to be asked: tuned where it says so, and opened on the cell's index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import polars as pl

from assets.embedding.cached import CachedEmbedder
from assets.engine.stage import Work
from evals.gold.evidence import gold_of
from evals.measuring.contract import RetrievalMetric
from evals.pipeline.run_resources import RunResources
from evals.pipeline.stage_inputs import budget_of, read_questions
from evals.retrieving.contract import Retriever
from evals.retrieving.query import Note, Query
from evals.retrieving.query_vectors import QueryVector
from evals.retrieving.running import QueryRunner
from evals.retrieving.shared import SharedSearcher
from evals.retrieving.tuning import Bench, Chosen, TrainCase, apart, tuned
from evals.study.cells import Cell
from evals.study.study import Study
from warehouse.artifacts import Artifact
from warehouse.errors import InputError
from warehouse.inference.purpose import Purpose


@dataclass(frozen=True)
class RetrievalInputs:
    """What a cell's retriever is opened on.

    test, train: sets of questions; those to tune on are empty where nothing is tuned
    """

    index: Artifact
    test: list[Artifact]
    train: list[Artifact]


@dataclass(frozen=True)
class TuningRecord:
    """What was chosen on train questions.

    left_out: train questions that are asked, too
    notes: what query transforms remarked on the train questions
    """

    chosen: tuple[Chosen, ...]
    left_out: int
    notes: tuple[Note, ...]


@dataclass(frozen=True)
class OpenRetrieval:
    """A cell's retriever, opened.

    embedder: embeds the questions; None where the retriever needs no vector
    tuning: None where nothing is tuned
    """

    searcher: SharedSearcher
    resources: RunResources
    index: Artifact
    embedder: CachedEmbedder | None
    tuning: TuningRecord | None = None

    def runner(self, vectors: Mapping[str, QueryVector]) -> QueryRunner:
        """Return what asks questions whose vectors are known; `vectors` is empty where none are needed."""
        return QueryRunner(self.searcher, self.resources.index(self.index), vectors, self.resources.clock)

    def close(self) -> None:
        """Let go of what the retriever holds for itself."""
        self.searcher.close()


def open_retrieval(study: Study, cell: Cell, inputs: RetrievalInputs, work: Work) -> OpenRetrieval:
    """Open the retriever of a cell on its index; what is tuned of it is chosen on the train questions.

    Raises:
        InputError: no train question can be tuned on.
    """
    resources = work.resource(RunResources)
    recipe = study.embedders[cell.embedder]
    tokenizer = study.chunkings[cell.chunking].tokenizer
    context = replace(
        resources.retrieval(inputs.index, recipe, tokenizer, budget_of(study, work)),
        purpose=Purpose("understanding", study.study, cell.ranking),
    )
    retriever = study.retrievers[cell.retriever]
    embedder = resources.embedder(recipe) if retriever.needs_vector else None
    index = resources.index(inputs.index)
    record = None
    if retriever.needs_tuning:
        known = read_questions(inputs.train, work)
        train = apart(known, read_questions(inputs.test, work))
        work.progress(f"tuning {cell.ranking} on {len(train)} train questions", 0, 0)
        metric = tuning_metric(study, train)
        cases = _cases(retriever, train, metric, resources.embedder(recipe))
        tuning = tuned(retriever, cases, Bench(index, context, metric))
        retriever = tuning.retriever
        notes = tuple(note for case in cases for note in case.query.trace.notes)
        record = TuningRecord(tuning.chosen, len(known) - len(train), notes)
    return OpenRetrieval(SharedSearcher(retriever, index, context), resources, inputs.index, embedder, record)


def tuning_metric(study: Study, train: pl.DataFrame) -> RetrievalMetric:
    """Return the metric by which weights are chosen on these train questions.

    Raises:
        InputError: none can be asked of any of them.
    """
    rows = train.to_dicts()
    for metric in study.tuning_metrics:
        if any(map(metric.applies, rows)):
            return metric
    raise InputError("no train question has evidence: there is nothing to tune on")


def _cases(
    retriever: Retriever, questions: pl.DataFrame, metric: RetrievalMetric, embedder: CachedEmbedder
) -> list[TrainCase]:
    """Return the train questions that the metric can be asked of, each with what it should find."""
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
