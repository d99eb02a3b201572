"""What the generator of a cell may use, in a run and in a pipeline."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from rag_assay.assets.embedding.embedder import EmbedderRecipe
from rag_assay.assets.engine.stage import BuildContext
from rag_assay.assets.recipes.build_half import Chunking
from rag_assay.evals.generation.contract import GenerationContext, Retrieve
from rag_assay.evals.pipeline.run_resources import RunResources
from rag_assay.evals.pipeline.stage_inputs import budget_of
from rag_assay.evals.study.cells import Cell
from rag_assay.evals.study.slice import whole_of
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.inference.budget import Budget
from rag_assay.warehouse.inference.call_tags import Purpose


def parts_of(study: Study, cell: Cell) -> tuple[Chunking, EmbedderRecipe]:
    """Return the chunking and the embedder of a cell; the study's first where it reads no ranking."""
    if cell.reads_ranking:
        return study.chunkings[cell.chunking], study.embedders[cell.embedder]
    return next(iter(study.chunkings.values())), next(iter(study.embedders.values()))


def generation_context(
    study: Study, cell: Cell, work: BuildContext, retrieve: Retrieve | None = None
) -> GenerationContext:
    """Return what the generator of a cell may use; its calls are paid from the study's budget and its own.

    retrieve: searches once more; None for a generator that never does
    """
    chunking, embedder = parts_of(study, cell)
    asking = GenerationRequest(
        cell, study.seed, chunking.tokenizer, embedder, study.generators[cell.generator].budget_limit
    )
    return generation_for(asking, budget_of(study, work), work, retrieve)


class GenerationRequest(NamedTuple):
    """Whose answers are asked for, and by what.

    seed: the study's
    tokenizer: that of the chunking
    limit: US dollars that the generator may spend of the budget; None: all of it
    """

    cell: Cell
    seed: int
    tokenizer: str
    embedder: EmbedderRecipe
    limit: float | None


def generation_for(
    asking: GenerationRequest, budget: Budget, work: BuildContext, retrieve: Retrieve | None = None
) -> GenerationContext:
    """Return what a generator may use, whether its cell is of a study or of an export."""
    cell = asking.cell
    if asking.limit is not None:
        budget = work.budgets.of((whole_of(cell.study), cell.generator), asking.limit, within=budget)

    where = f" ({cell.chunking}, {cell.retriever})" if cell.reads_ranking else ""

    def progress(label: str, done: int, of: int) -> None:
        work.progress(f"{label}{where}", done, of)

    generation = work.resource(RunResources).generation(
        asking.embedder, asking.tokenizer, budget, asking.seed, cell.replicate - 1, progress
    )
    return replace(generation, purpose=Purpose("answers", cell.study, cell.key), retrieve=retrieve)
