"""Embedding through the vector cache: only texts that no one has embedded yet cost anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from assets.embedding.embedder import Embedder, EmbedderRecipe, Matrix
from warehouse import models
from warehouse.identity import sha256_text
from warehouse.paths import Home
from warehouse.vectors import VectorCache

FLUSH = 256  # texts a segment: what a kill can cost at most
STEP = 64  # texts between two words of progress


@dataclass(frozen=True)
class Embedded:
    """Vectors in the order of the texts, shape (texts, dimensions), and how many had to be computed."""

    vectors: Matrix
    computed: int


class CachedEmbedder:
    """An embedder whose weights are loaded only when a text is new."""

    def __init__(self, recipe: EmbedderRecipe, home: Home) -> None:
        self.recipe = recipe
        self.home = home

    @property
    def embedder(self) -> Embedder:
        """The loaded embedder (loads it)."""
        return _loaded(self.recipe, self.home)

    def passages(self, texts: Sequence[str], progress: Callable[[int, int], None] | None = None) -> Embedded:
        """Embed passages, each distinct text once; ``progress`` hears (done, of) now and then."""
        return self._embed([self.recipe.passage_prefix + text for text in texts], progress)

    def queries(self, texts: Sequence[str]) -> Embedded:
        """Embed questions, with the model's query prefix."""
        return self._embed([self.recipe.query_prefix + text for text in texts], None)

    def _embed(self, texts: list[str], progress: Callable[[int, int], None] | None) -> Embedded:
        if not texts:
            return Embedded(np.zeros((0, 0), np.float32), 0)
        hashes = [sha256_text(text) for text in texts]
        cache = VectorCache(self.home, self.recipe.revision())
        known = cache.get(hashes)
        missing = {key: text for key, text in zip(hashes, texts, strict=True) if key not in known}
        # Texts of like length share a batch, so that little is padded.
        order = sorted(missing, key=lambda key: (len(missing[key]), key))
        for at in range(0, len(order), FLUSH):
            keys = order[at : at + FLUSH]
            parts = []
            for first in range(0, len(keys), STEP):
                if progress:
                    progress(at + first, len(order))
                parts.append(self.embedder.embed([missing[key] for key in keys[first : first + STEP]]))
            vectors = np.concatenate(parts)
            cache.put(keys, vectors)
            known.update(zip(keys, vectors, strict=True))
        if progress and order:
            progress(len(order), len(order))
        return Embedded(np.stack([known[key] for key in hashes]), len(missing))


@lru_cache(maxsize=2)
def _loaded(recipe: EmbedderRecipe, home: Home) -> Embedder:
    return Embedder(recipe, models.fetch(recipe.model, home))
