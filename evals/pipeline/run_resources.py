"""The resources that a run shares: open indexes, loaded models, gateways, question vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import TYPE_CHECKING

from rag_assay.assets.embedding.cached_embedder import CachedEmbedder
from rag_assay.assets.embedding.embedder import EmbedderRecipe, Matrix
from rag_assay.assets.engine.stage import BuildContext, Resource
from rag_assay.assets.tokenization.tokenizer import Tokenizer, tokenizer_of
from rag_assay.evals.generation.contract import GenerationContext
from rag_assay.evals.retrieval.clock import Clock
from rag_assay.evals.retrieval.context import LoadedModels, Memory, RetrievalContext, TextEmbedder
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.query_vectors import QueryVector, embed_queries
from rag_assay.warehouse.artifacts import Artifact
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.inference.budget import Budget

if TYPE_CHECKING:
    from rag_assay.warehouse.inference.gateway import Gateway


class RunResources(Resource):
    """Opens, loads and embeds on demand, each thing once a run. clock: counts what is taken from memory as if
    computed now; obstacles_last: seconds until a model that failed is tried again
    """

    def __init__(self, work: BuildContext) -> None:
        super().__init__(work)
        self.clock = Clock()
        self.models = LoadedModels()
        self.local_threads: int | None = None
        self.obstacles_last = inf
        self._indexes: dict[str, OpenIndex] = {}
        self._tokenizers: dict[str, Tokenizer] = {}
        self._embedders: dict[EmbedderRecipe, CachedEmbedder] = {}
        self._text_embedders: dict[EmbedderRecipe, TextEmbedder] = {}
        self._gateways: dict[Budget, Gateway] = {}
        self._memories: dict[tuple[str, EmbedderRecipe], Memory] = {}
        self._query_vectors: dict[tuple[EmbedderRecipe, str], dict[str, QueryVector]] = {}

    def index(self, artifact: Artifact) -> OpenIndex:
        if artifact.identity not in self._indexes:
            folder = self.work.store.folder(artifact.stage, artifact.identity)
            self._indexes[artifact.identity] = OpenIndex(folder)
        return self._indexes[artifact.identity]

    def embedder(self, recipe: EmbedderRecipe) -> CachedEmbedder:
        if recipe not in self._embedders:
            self._embedders[recipe] = CachedEmbedder(recipe, self.work.home)
        return self._embedders[recipe]

    def text_embedder(self, recipe: EmbedderRecipe) -> TextEmbedder:
        if recipe not in self._text_embedders:
            self._text_embedders[recipe] = TextEmbedder(self.embedder(recipe), self.clock)
        return self._text_embedders[recipe]

    def query_vectors(self, texts: list[str], recipe: EmbedderRecipe) -> dict[str, QueryVector]:
        key = (recipe, digest(texts))
        if key not in self._query_vectors:
            self._query_vectors[key] = embed_queries(
                texts,
                self.embedder(recipe),
                lambda done, of: self.work.progress("embedding questions", done, of),
            )
        return self._query_vectors[key]

    def gateway(self, budget: Budget) -> Gateway:
        from rag_assay.warehouse.inference.gateway import Gateway

        if budget not in self._gateways:
            self._gateways[budget] = Gateway(
                self.work.home,
                budget=budget,
                local_threads=self.local_threads,
                obstacles_last=self.obstacles_last,
            )
        return self._gateways[budget]

    def forget_obstacles(self) -> None:
        for gateway in list(self._gateways.values()):
            gateway.forget_obstacles()

    def tokenizer(self, name: str) -> Tokenizer:
        if name not in self._tokenizers:
            self._tokenizers[name] = tokenizer_of(
                name, self.work.home, lambda text: self.work.progress(text, 0, 0)
            )
        return self._tokenizers[name]

    def retrieval(
        self, index: str, recipe: EmbedderRecipe, tokenizer: str, budget: Budget
    ) -> RetrievalContext:
        return RetrievalContext(
            self.text_embedder(recipe),
            self.models,
            self.gateway(budget),
            self._memories.setdefault((index, recipe), Memory()),
            self.clock,
            lambda texts: self.tokenizer(tokenizer).count(texts),
            dense_weight=recipe.dense_weight,
        )

    def generation(
        self,
        recipe: EmbedderRecipe,
        tokenizer: str,
        budget: Budget,
        seed: int,
        replicate: int,
        progress: Callable[[str, int, int], None],
    ) -> GenerationContext:
        # A sentence may be longer than what the model reads; here its windows are averaged, whatever holds
        # for chunks.
        embedder = self.embedder(recipe.model_copy(update={"overflow": "average"}))

        def embed(texts: Sequence[str]) -> Matrix:
            label = "embedding sentences"
            return embedder.passages(texts, lambda done, of: progress(label, done, of)).vectors

        def count_tokens(texts: Sequence[str]) -> list[int]:
            return (embedder.tokenizer or self.tokenizer(tokenizer)).count(texts)

        return GenerationContext(self.gateway(budget), embed, count_tokens, seed, replicate, progress)

    def close(self) -> None:
        for gateway in self._gateways.values():
            gateway.close()
