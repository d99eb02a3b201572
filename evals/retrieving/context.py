"""What the rankings of a run share: loaded models, and the embedding of texts made of questions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from assets.embedding.cached import CachedEmbedder
from assets.embedding.embedder import Matrix
from evals.retrieving.clock import Clock, Spent

MANY = 64  # texts; so many come from no question, but from a corpus, and are kept for the next run


class Made(dict[object, Any]):
    """Things that are made once for a run, and closed at its end where they can be."""

    def close(self) -> None:
        """Close a model server, say."""
        for thing in self.values():
            if hasattr(thing, "close"):
                thing.close()
        self.clear()


class TextEmbedder:
    """Embeds what an understanding step or a retriever makes of a question, as a live system would.

    A few texts are embedded as they come; those that came before in the run are taken from memory, and their
    seconds go to the clock. Many at once (the words of a corpus) go through the cache of vectors.
    """

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
            embedder = self.embedder.embedder
            if not self.known:
                embedder.embed(["warm up"])  # the first call pays for set-up that no question should
            begin = self.clock.now()
            vectors = embedder.embed([self.embedder.query_prefix + text for text in new])
            each = self.clock.since(begin).share(len(new))
            self.known.update({text: (vector, each) for text, vector in zip(new, vectors, strict=True)})
        return np.stack([self.known[text][0] for text in texts]) if texts else np.zeros((0, 0), np.float32)
