"""Studies without a grid: nothing is cut, embedded or indexed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from pydantic import Field, model_validator

from rag_assay.assets.embedding.component_embedders import AnyEmbedder
from rag_assay.assets.indexing.index_recipe import IndexRecipe
from rag_assay.assets.recipes.build_half import Chunking, Corpus, Name
from rag_assay.evals.retrieval.contract import Retriever
from rag_assay.evals.study.study import Study
from rag_assay.evals.systems.contract import AnySystem
from rag_assay.warehouse.recipe import error_at
from rag_assay.warehouse.source import Source

GRID = ("chunkings", "embedders", "retrievers")
"""Keys that a study of systems alone does not have."""


class GridlessStudy(Study):
    """A study that has answers without pipelines of its own."""

    judged_alone: ClassVar[bool] = True

    sources: dict[Name, Source] = Field(default_factory=dict)
    corpus: Corpus = Field(default=None)  # type: ignore[assignment] # filled in below
    chunkings: dict[Name, Chunking] = Field(default_factory=dict, max_length=0)
    embedders: dict[Name, AnyEmbedder] = Field(default_factory=dict, max_length=0)
    retrievers: dict[Name, Retriever] = Field(default_factory=dict, max_length=0)

    @model_validator(mode="before")
    @classmethod
    def _has_a_corpus(cls, data: Any) -> Any:
        """Without documents, its name is one that no study file can write, so that nothing is shared."""
        if data.get("corpus") is not None:
            return data
        sources, name = data.get("sources"), data.get("study")
        if isinstance(sources, Mapping) and sources:
            return {**data, "corpus": {"name": name, "sources": [*sources]}}
        empty = Corpus.model_construct(name=f"@{name}", sources=(), near_duplicates=None, index=IndexRecipe())
        return {**data, "corpus": empty}


class SystemStudy(GridlessStudy):
    """A study of systems alone.

    systems: RAG applications of the user's own, each one cell
    sources: the documents that passages are looked for in; default: none, and metrics of rankings are not run
    corpus: default: all sources, by the name of the study
    """

    systems: dict[Name, AnySystem] = Field(min_length=1)

    @model_validator(mode="after")
    def _needs_no_ranking(self) -> Self:
        for name, generator in self.generators.items():
            if generator.reads == "ranking":
                text = f"`{name}` answers from a ranking; give `chunkings`, `embedders` and `retrievers` too"
                raise error_at(("generators", name), text)
        return self


def is_of_systems(data: Mapping[str, Any]) -> bool:
    return "systems" in data and not any(key in data for key in GRID)
