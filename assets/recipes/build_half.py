"""The build half of a study file, typed: sources, corpus, chunkings, embedders, and their digests."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, SerializerFunctionWrapHandler, field_validator, model_serializer, model_validator

from rag_assay.assets.chunking import CHUNKERS, Chunker
from rag_assay.assets.cleaning.duplicates import CODE_VERSION as DUPLICATES_CODE
from rag_assay.assets.embedding.component_embedders import AnyEmbedder
from rag_assay.assets.enrichment.llm_enrichment import Enrichment
from rag_assay.assets.indexing.index_recipe import IndexRecipe
from rag_assay.assets.tokenization.tokenizer_names import weights_of
from rag_assay.warehouse.components import OneOf
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.inference import weights
from rag_assay.warehouse.recipe import Strict
from rag_assay.warehouse.source import Source
from rag_assay.warehouse.suggestions import unknown

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_+-]*$", max_length=60)]


BESIDE = ("tokenizer", "enrich")


class Chunking(Strict):
    """How documents are cut into chunks.

    chunker: what cuts them; a study writes its `{kind: {its parameters}}` beside the other keys
    tokenizer: the embedding model whose tokens are counted: a name of the model registry, a folder (`./path`)
        or `owner/name@commit` of the hub; all-MiniLM-L6-v2 unless said otherwise
    enrich: what a language model is asked about its chunks and documents; nothing unless said
    """

    tokenizer: str = "all-MiniLM-L6-v2"
    enrich: Enrichment | None = None
    chunker: Annotated[Chunker, OneOf(CHUNKERS, beside=BESIDE)]

    @model_validator(mode="before")
    @classmethod
    def _takes_the_chunker_by_its_kind(cls, written: Any) -> Any:
        if not isinstance(written, dict) or isinstance(written.get("chunker"), Chunker):
            return written
        beside = {name: written[name] for name in BESIDE if name in written}
        return {**beside, "chunker": {name: one for name, one in written.items() if name not in BESIDE}}

    @model_serializer(mode="wrap")
    def _with_the_chunker_by_its_kind(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written = handler(self)
        return {**written.pop("chunker"), **written}

    @field_validator("tokenizer")
    @classmethod
    def _is_a_model(cls, name: str) -> str:
        try:
            weights.place_of(*weights_of(name))
        except ValueError as error:
            raise ValueError(f"{error}; for a tokenizer, the commit is written owner/name@commit") from error
        return name

    def identity(self) -> str:
        """Digest of the chunker, its parameters, code version, and the files of the models that it uses."""
        used = [self.tokenizer, *([self.chunker.embedding_model] if self.chunker.embedding_model else [])]
        return digest([self.chunker.identity(), *(weights.identity(*weights_of(name)) for name in used)])


class Corpus(Strict):
    """A named set of sources whose documents are chunked and searched together.

    near_duplicates: leave out documents that are copies of another one, the same text or one whose Jaccard
        similarity by word 5-grams is at least this, in (0, 1]; all documents are kept unless it is given
    index: how its indexes are searched by vectors: exactly below 50,000 chunks unless it says otherwise
    """

    name: Name
    sources: Annotated[tuple[Name, ...], Field(min_length=1)]
    near_duplicates: Annotated[float, Field(gt=0, le=1)] | None = None
    index: IndexRecipe = IndexRecipe()

    def recipes(self) -> dict[str, str]:
        """Return the digest of what the corpus does with its documents; nothing unless it does."""
        if self.near_duplicates is None:
            return {}
        return {f"corpus.{self.name}": digest(["near_duplicates", self.near_duplicates, DUPLICATES_CODE])}


class BuildHalf(Strict):
    """What has to be built before anything can be asked."""

    sources: Annotated[dict[Name, Source], Field(min_length=1)]
    corpus: Corpus
    chunkings: Annotated[dict[Name, Chunking], Field(min_length=1)]
    embedders: Annotated[dict[Name, AnyEmbedder], Field(min_length=1)]

    @model_validator(mode="after")
    def _corpus_has_its_sources(self) -> Self:
        for name in self.corpus.sources:
            if name not in self.sources:
                raise ValueError(unknown("source", name, self.sources, "corpus.sources"))
        return self
