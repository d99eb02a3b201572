"""How much there is to a cell: what must run, be kept up and be understood when it answers questions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rag_assay.evals.generation.contract import Generator
from rag_assay.evals.query_transforms.model_transform import ByModel
from rag_assay.evals.retrieval.chain import Chain
from rag_assay.evals.retrieval.contract import Retriever
from rag_assay.evals.retrieval.cross_encoder import CrossEncoded, CrossEncoder
from rag_assay.evals.study.cells import Cell
from rag_assay.evals.study.servers import nested_recipes
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.components import Component


class Simplicity(NamedTuple):
    """What a cell takes to answer a question; of two cells the smaller tuple is the simpler one.

    models: other models that retrieval runs on the question or the passages: embedder, cross-encoder
    parts: of the retriever: arms, fusions, steps before and after
    chunks: in its index; None: not known
    """

    calls: int
    models: int
    parts: int
    chunks: int | None = None


def simplicities(study: Study, chunks: Mapping[str, int]) -> dict[str, Simplicity]:
    """Return name of a cell -> what it takes; what imported answers took is not known.

    chunks: chunking -> how many chunks it makes
    """
    return {
        cell.name: _of(
            study.retrievers.get(cell.retriever), study.generators.get(cell.generator), cell, chunks
        )
        for cell in study.cells()
        if not cell.imported
    }


def chunk_counts(study: Study, store: ArtifactStore) -> dict[str, int]:
    """Return chunking -> how many chunks it has made of the corpus; one that has not been run is absent."""
    found = {name: store.current("chunks", f"{study.corpus.name}.{name}") for name in study.chunkings}
    return {name: artifact.meta["chunks"] for name, artifact in found.items() if artifact}


def unpriced(study: Study) -> frozenset[str]:
    """Return the cells whose costs are not known: imported, or with a retriever that calls a paid model."""
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
