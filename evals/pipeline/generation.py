"""What the generator of a cell may use, in a run and in a pipeline."""

from __future__ import annotations

from dataclasses import replace

from assets.embedding.embedder import EmbedderRecipe
from assets.engine.stage import Work
from assets.recipes.build_half import Chunking
from evals.generating.contract import GenerationContext, Retrieve
from evals.pipeline.run_resources import RunResources
from evals.pipeline.stage_inputs import budget_of
from evals.study.cells import Cell
from evals.study.study import Study
from warehouse.inference.purpose import Purpose


def parts_of(study: Study, cell: Cell) -> tuple[Chunking, EmbedderRecipe]:
    """Return the chunking and the embedder of a cell; the study's first where it reads no ranking."""
    if cell.reads_ranking:
        return study.chunkings[cell.chunking], study.embedders[cell.embedder]
    return next(iter(study.chunkings.values())), next(iter(study.embedders.values()))


def generation_context(
    study: Study, cell: Cell, work: Work, retrieve: Retrieve | None = None
) -> GenerationContext:
    """Return what the generator of a cell may use; its calls are paid from the study's budget and its own.

    retrieve: searches once more; None for a generator that never does
    """
    budget, limit = budget_of(study, work), study.generators[cell.generator].budget_limit
    if limit is not None:
        budget = work.budgets.of((study.study, cell.generator), limit, within=budget)

    where = f" ({cell.chunking}, {cell.retriever})" if cell.reads_ranking else ""

    def progress(label: str, done: int, of: int) -> None:
        work.progress(f"{label}{where}", done, of)

    chunking, embedder = parts_of(study, cell)
    tokenizer = chunking.tokenizer
    resources = work.resource(RunResources)
    generation = resources.generation(embedder, tokenizer, budget, study.seed, cell.replicate - 1, progress)
    return replace(generation, purpose=Purpose("answers", study.study, cell.key), retrieve=retrieve)
