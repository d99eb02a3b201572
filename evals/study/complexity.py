"""How much there is to a cell: what must run, be kept up and be understood when it answers questions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import polars as pl

from rag_assay.evals.generation.contract import Generator
from rag_assay.evals.judging.judge_metrics import JudgedScores
from rag_assay.evals.query_transforms.model_transform import ByModel
from rag_assay.evals.retrieval.chain import Chain
from rag_assay.evals.retrieval.contract import Retriever
from rag_assay.evals.retrieval.cross_encoder import CrossEncoded, CrossEncoder
from rag_assay.evals.rubrics.human_rating_metrics import PeopleScores
from rag_assay.evals.study.cells import Cell
from rag_assay.evals.study.study import Study
from rag_assay.evals.systems.contract import System
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.components import Component
from rag_assay.warehouse.recipe import nested_recipes
from rag_assay.warehouse.schemas import MIN_COVERAGE


def unmeasured(study: Study) -> frozenset[tuple[str, str]]:
    """Return the (cell, metric) pairs whose missing values are no lack."""
    found: set[tuple[str, str]] = set()
    metrics = [study.metric(name) for name in study.measured]
    for cell in study.cells():
        reads = study.reads(cell.generator) if cell.generator in study.generators else None
        answers = has_answers(study, cell)
        for metric in metrics:
            if (
                (not cell.reads_ranking and bool(metric.reads & {"ranking", "retrieval_cost"}))
                or (not answers and bool(metric.reads & {"answer", "answer_cost", "citations", "judgements"}))
                or (reads == "nothing" and isinstance(metric, JudgedScores) and metric.of_passages)
                or (reads is None and bool(metric.reads & {"answer", "answer_cost", "citations"}))
                or (cell.has_contexts and bool(metric.reads & {"answer_cost", "citations"}))
                or (isinstance(metric, PeopleScores) and metric.name != study.metrics[0])
            ):
                found.add((cell.name, metric.name))
    return frozenset(found)


def has_answers(study: Study, cell: Cell) -> bool:
    found = study.generators.get(cell.generator)
    return not isinstance(found, System) or found.has_answers


def coverages(board: pl.DataFrame, left_out: frozenset[tuple[str, str]]) -> pl.DataFrame:
    """Return cell, share (0 to 1) and lacks (the metric with the fewest values; NULL: the answers)."""
    pairs = pl.DataFrame(sorted(left_out), schema={"cell": pl.String, "metric": pl.String}, orient="row")
    values = board.drop_nulls("coverage").join(pairs, on=["cell", "metric"], how="anti")
    values = values.select("cell", pl.col("coverage").alias("share"), pl.col("metric").alias("lacks"))
    answers = board.drop_nulls("answered").select(
        "cell", pl.col("answered").alias("share"), pl.lit(None, pl.String).alias("lacks")
    )
    lowest = pl.concat([answers, values]).sort("share", "lacks", nulls_last=False)
    return lowest.unique("cell", keep="first", maintain_order=True).sort("cell")


def lowest_and_highest(found: pl.DataFrame) -> tuple[float | None, float | None]:
    shares = found["share"].to_list()
    return min(shares, default=None), max(shares, default=None)


def below_gate(found: pl.DataFrame) -> pl.DataFrame:
    return found.filter(pl.col("share") < MIN_COVERAGE)


class Simplicity(NamedTuple):
    """What a cell takes to answer a question; the smaller tuple is the simpler cell."""

    calls: int
    models: int
    parts: int
    chunks: int | None = None


def simplicities(study: Study, chunks: Mapping[str, int]) -> dict[str, Simplicity]:
    return {
        cell.name: _of(
            study.retrievers.get(cell.retriever), study.generators.get(cell.generator), cell, chunks
        )
        for cell in study.cells()
        if not cell.imported
    }


def chunk_counts(study: Study, store: ArtifactStore) -> dict[str, int]:
    found = {name: store.current("chunks", f"{study.corpus.name}.{name}") for name in study.chunkings}
    return {name: artifact.meta["chunks"] for name, artifact in found.items() if artifact}


def unpriced(study: Study) -> frozenset[str]:
    paid = {
        name
        for name, retriever in study.retrievers.items()
        for one in nested_recipes(retriever)
        if isinstance(one, ByModel)
        and one.chat is not None
        and not all(model.is_local for model in one.chat.ranked())
    }
    return frozenset(
        cell.name
        for cell in study.cells()
        if cell.imported or (cell.reads_ranking and cell.retriever in paid)
    )


def _of(
    retriever: Retriever | None, generator: Generator | None, cell: Cell, chunks: Mapping[str, int]
) -> Simplicity:
    found = list(nested_recipes(retriever)) if retriever and cell.reads_ranking else []
    asking = [one for one in found if isinstance(one, ByModel) and one.chat is not None]
    calls = len(asking) + (generator.calls_per_question().most if generator else 0)
    reading = sum(isinstance(one, CrossEncoder | CrossEncoded) for one in found)
    embedding = bool(retriever and cell.reads_ranking and retriever.needs_vector)
    # A chain is the brackets around its links.
    parts = sum(isinstance(one, Component) and not isinstance(one, Chain) for one in found)
    return Simplicity(calls, reading + embedding, parts, chunks.get(cell.chunking) if found else 0)
