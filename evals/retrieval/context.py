"""What searchers may use beside an index: an embedder, loaded models, a gateway, the run's memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, TypeVarTuple

import numpy as np

from rag_assay.assets.embedding.embedder import Matrix
from rag_assay.evals.retrieval.clock import Clock, Spent
from rag_assay.evals.retrieval.query import Note, QueryInterpretation, TraceStep
from rag_assay.evals.retrieval.ranking import Mask, Ranking
from rag_assay.warehouse.inference.call_tags import Purpose

if TYPE_CHECKING:
    from rag_assay.assets.embedding.cached_embedder import CachedEmbedder
    from rag_assay.evals.retrieval.ranking import Ranking
    from rag_assay.warehouse.inference.gateway import Gateway


class SearchResult(NamedTuple):
    """What a retriever found; allowed: rows that its filters allow, shape (chunks,); None: all"""

    ranking: Ranking
    spent: Spent
    steps: tuple[TraceStep, ...]
    notes: tuple[Note, ...]
    allowed: Mask | None
    understood: tuple[QueryInterpretation, ...] = ()


@dataclass
class Memory:
    """Rankings of one index and run; all are dropped at ``limit`` rows (16 bytes each)."""

    limit: int = 4_000_000
    held: dict[object, SearchResult] = field(default_factory=dict)
    rows: int = 0

    def keep(self, key: object, found: SearchResult) -> None:
        rows = len(found.ranking) + sum(len(step.rows) for step in found.steps)
        if self.rows + rows > self.limit:
            self.held.clear()
            self.rows = 0
        self.held[key] = found
        self.rows += rows


Args = TypeVarTuple("Args")
Model = TypeVar("Model")
Embed = Callable[[Sequence[str]], Matrix]
CountTokens = Callable[[Sequence[str]], list[int]]
MOST_KEPT = 20_000  # texts whose vectors are held
MANY = 64  # texts; so many come from no question, but from a corpus, and are kept for the next run


class LoadedModels:
    """Local models that a run has loaded, each once: searchers of all indexes share them."""

    def __init__(self) -> None:
        self._held: dict[tuple[object, ...], Any] = {}

    def get(self, load: Callable[[*Args], Model], *args: *Args) -> Model:
        key = (load, *args)
        if key not in self._held:
            self._held[key] = load(*args)
        found: Model = self._held[key]
        return found


@dataclass(frozen=True)
class RetrievalContext:
    """What searchers may use beside the index.

    embed: texts -> unit vectors of the index's embedder (its query side), shape (texts, dimensions)
    models: local models that the run has loaded (a cross-encoder)
    gateway: asks language models; None: none can be asked
    memory: rankings that combinations share; None: every retriever ranks again
    count: texts -> their tokens by the chunking's tokenizer, special tokens not counted
    purpose: what calls are made for; `purpose.of(query.question_id)` goes with each
    dense_weight: share of `dense` in `hybrid` that suits the embedder
    """

    embed: Embed | None = None
    models: LoadedModels = field(default_factory=LoadedModels)
    gateway: Gateway | None = None
    memory: Memory | None = None
    clock: Clock = field(default_factory=Clock)
    count: CountTokens | None = None
    purpose: Purpose = Purpose("understanding")
    dense_weight: float = 0.5


class TextEmbedder:
    """Embeds texts that transforms and retrievers make of a question; their seconds go to the clock."""

    def __init__(self, embedder: CachedEmbedder, clock: Clock) -> None:
        self.embedder = embedder
        self.clock = clock
        self.known: dict[str, tuple[Matrix, Spent]] = {}

    def __call__(self, texts: Sequence[str]) -> Matrix:
        """Return unit vectors, shape (texts, dimensions)."""
        if len(texts) > MANY:
            return self.embedder.queries(texts).vectors
        new = [text for text in dict.fromkeys(texts) if text not in self.known]
        for text in {text for text in texts if text in self.known}:
            self.clock.add(self.known[text][1])
        if new:
            if len(self.known) > MOST_KEPT:  # a server is asked without end
                self.known = {text: self.known[text] for text in texts if text in self.known}
            embedder = self.embedder.embedder
            if not self.known:
                embedder.embed(["warm up"])  # the first call pays for set-up that no question should
            begin = self.clock.now()
            vectors = embedder.embed([self.embedder.query_prefix + text for text in new])
            each = self.clock.since(begin).share(len(new))
            self.known.update({text: (vector, each) for text, vector in zip(new, vectors, strict=True)})
        return np.stack([self.known[text][0] for text in texts]) if texts else np.zeros((0, 0), np.float32)
