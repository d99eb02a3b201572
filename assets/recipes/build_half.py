"""The build half of a study file, typed: sources, corpus, chunkings, embedders, and their digests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from rag_assay.assets.chunking import CHUNKERS, Chunker
from rag_assay.assets.cleaning.duplicates import CODE_VERSION as DUPLICATES_CODE
from rag_assay.assets.embedding.component_embedders import AnyEmbedder
from rag_assay.assets.embedding.embedder import Api, EmbedderRecipe
from rag_assay.assets.enrichment.llm_enrichment import Enrichment
from rag_assay.assets.indexing.index_recipe import IndexRecipe
from rag_assay.assets.tokenization.tokenizer import weights_of
from rag_assay.warehouse.components import OneOf
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.inference import weights
from rag_assay.warehouse.inference.chat_model import ChatModel
from rag_assay.warehouse.recipe import Strict, nested_recipes
from rag_assay.warehouse.source import Source, is_url
from rag_assay.warehouse.suggestions import unknown


def absolute(path: str, base: Path) -> Path:
    """Resolve a study's path: from `~`, its folder or, if it exists only there, the working folder."""
    try:
        expanded = Path(path).expanduser()
        if expanded.is_absolute():
            expanded.exists()  # which raises for what can be no path
            return expanded
        beside = (base / expanded).resolve()
        return expanded.resolve() if expanded.exists() and not beside.exists() else beside
    except (OSError, RuntimeError, ValueError) as error:  # too long, an unknown `~user`, a NUL in it
        why = getattr(error, "strerror", None) or error
        raise InputError(f"{path[:80]!r} cannot be used as a path: {why}") from error


def may_cost(*parts: object) -> bool:
    """Return whether one of these components, or of theirs, may call a model that costs money.

    Models of this process and models with price 0 are free; every other model on a server may cost, as may
    the server of an embedder.

    >>> from rag_assay.assets.embedding.embedder import EmbedderRecipe
    >>> may_cost(EmbedderRecipe(model="all-MiniLM-L6-v2"), None)
    False
    >>> may_cost(EmbedderRecipe(model="openai/any", api={}))
    True
    """
    return any(map(_may_cost, [*parts, *nested_recipes(parts)]))


def _may_cost(part: object) -> bool:
    chat = part if isinstance(part, ChatModel) else getattr(part, "chat", None)
    return isinstance(part, Api) or (isinstance(chat, ChatModel) and any(map(_is_paid, chat.ranked())))


def _is_paid(chat: ChatModel) -> bool:
    is_given_away = chat.price is not None and not chat.price.read and not chat.price.written
    return not chat.is_local and not is_given_away


Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_+-]*$", max_length=60)]


BESIDE = ("tokenizer", "enrich")
TOKENIZER = "all-MiniLM-L6-v2"


class Chunking(Strict):
    """How documents are cut into chunks.

    chunker: what cuts them; a study writes its `{kind: {its parameters}}` beside the other keys
    tokenizer: the embedding model whose tokens are counted: a name of the model registry, a folder (`./path`)
        or `owner/name@commit` of the hub
    enrich: what a language model adds to chunks and documents; default: nothing
    """

    tokenizer: str = TOKENIZER
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
        used = [self.tokenizer, *([self.chunker.embedding_model] if self.chunker.embedding_model else [])]
        return digest([self.chunker.identity(), *(weights.identity(*weights_of(name)) for name in used)])


class Corpus(Strict):
    """A named set of sources whose documents are chunked and searched together.

    name: of the corpus, shared with other studies that search the same sources
    sources: their names
    near_duplicates: leave out documents that are copies of another one, the same text or one whose Jaccard
        similarity by word 5-grams is at least this, in (0, 1]; default: all documents are kept
    index: how its indexes are searched by vectors; default: exactly below 50,000 chunks
    """

    name: Name
    sources: Annotated[tuple[Name, ...], Field(min_length=1)]
    near_duplicates: Annotated[float, Field(gt=0, le=1)] | None = None
    index: IndexRecipe = IndexRecipe()

    def recipes(self) -> dict[str, str]:
        if self.near_duplicates is None:
            return {}
        return {f"corpus.{self.name}": digest(["near_duplicates", self.near_duplicates, DUPLICATES_CODE])}


class BuildHalf(Strict):
    """What has to be built before anything can be asked.

    sources: where documents come from
    corpus: which sources are searched together
    chunkings: how documents are split, and what a model adds to chunks
    embedders: models that turn text into vectors
    """

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


@dataclass(frozen=True)
class Build:
    """All that is to be built, for all studies together.

    chunkings, embedders: by name, with the corpus as prefix if the name is ambiguous
    chunk_sets: (corpus, chunking); indexes: (corpus, chunking, embedder)
    """

    sources: dict[str, Source] = field(default_factory=dict)
    corpora: dict[str, Corpus] = field(default_factory=dict)
    chunkings: dict[str, Chunking] = field(default_factory=dict)
    embedders: dict[str, EmbedderRecipe] = field(default_factory=dict)
    chunk_sets: dict[str, tuple[str, str]] = field(default_factory=dict)
    indexes: dict[str, tuple[str, str, str]] = field(default_factory=dict)

    @staticmethod
    def of(halves: Sequence[tuple[BuildHalf, Sequence[str], Path]]) -> Build:
        """Merge build halves, each with the keys of its study's indexes and the folder of its paths."""
        build = Build()
        for half, indexes, base in halves:
            build.corpora[half.corpus.name] = half.corpus
            for name in half.corpus.sources:
                build.sources[name] = _absolute(half.sources[name], base)
            chunkings = _added(build.chunkings, half.chunkings, half.corpus.name)
            embedders = _added(build.embedders, half.embedders, half.corpus.name)
            for key in indexes:
                corpus, chunking, embedder = key.split(".")
                build.chunk_sets[f"{corpus}.{chunking}"] = (corpus, chunkings[chunking])
                build.indexes[key] = (corpus, chunkings[chunking], embedders[embedder])
        return build


def _added(known: dict[str, Any], recipes: Mapping[str, Any], corpus: str) -> dict[str, str]:
    names = {
        name: name if known.get(name, recipe) == recipe else f"{corpus}.{name}"
        for name, recipe in recipes.items()
    }
    known.update({names[name]: recipe for name, recipe in recipes.items()})
    return names


def _absolute(source: Source, base: Path) -> Source:
    if source.path is None or is_url(source.path):
        return source
    return source.model_copy(update={"path": str(absolute(source.path, base))})
