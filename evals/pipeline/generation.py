"""What the generator of a cell may use, in a run and in a pipeline."""

from __future__ import annotations

from dataclasses import replace

from assets.engine.stage import Work
from evals.generating.contract import GenerationContext, Retrieve
from evals.pipeline.run_resources import RunResources
from evals.pipeline.stage_inputs import budget_of
from evals.study.cells import Cell
from evals.study.study import Study
from warehouse.inference.purpose import Purpose


def generation_context(
    study: Study, cell: Cell, work: Work, retrieve: Retrieve | None = None
) -> GenerationContext:
    """Return what the generator of a cell may use; its calls are paid from the study's budget and its own.

    retrieve: searches once more; None for a generator that never does
    """
    budget, limit = budget_of(study, work), study.generators[cell.generator].budget_limit
    if limit is not None:
        budget = work.budgets.of((study.study, cell.generator), limit, within=budget)

    def progress(label: str, done: int, of: int) -> None:
        work.progress(f"{label} ({cell.chunking}, {cell.retriever})", done, of)

    tokenizer = study.chunkings[cell.chunking].tokenizer
    resources = work.resource(RunResources)
    embedder = study.embedders[cell.embedder]
    generation = resources.generation(embedder, tokenizer, budget, study.seed, cell.replicate - 1, progress)
    return replace(generation, purpose=Purpose("answers", study.study, cell.key), retrieve=retrieve)
