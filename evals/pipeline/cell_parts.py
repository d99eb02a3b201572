"""The parts of one cell, by themselves: what a study says of it, or an export without its study."""

from __future__ import annotations

from dataclasses import dataclass

from rag_assay.assets.embedding.embedder import EmbedderRecipe
from rag_assay.evals.generation.contract import Generator
from rag_assay.evals.retrieval.contract import Retriever
from rag_assay.evals.study.cells import NO_GENERATOR, Cell
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.inference.budget import Caps


@dataclass(frozen=True)
class CellParts:
    """All that a cell needs beside its index to be asked a question.

    retriever, generator: with weights and thresholds in place of `tuned`, once those are known
    generator: None where rankings alone are compared
    caps: what the calls of models may cost together; None: no cap
    """

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
