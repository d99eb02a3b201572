"""Embeddings from a server, asked through LiteLLM."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from assets.embedding.embedder import EmbedderRecipe, Matrix
from assets.embedding.tokenizer import load_tokenizer
from assets.embedding.windows import average_windows, encodable, first_windows, refuse_long, unit
from warehouse.embedding_api import EmbeddingApi

AT_ONCE = 4  # requests in flight


class ApiEmbedder:
    """A server's model: texts in, vectors out.

    Args:
        recipe: with its `api`.
        folder: of the tokenizer that counts, None where the recipe names none.
    """

    def __init__(self, recipe: EmbedderRecipe, folder: Path | None) -> None:
        if recipe.api is None:
            raise ValueError("the recipe names no api")
        self.recipe = recipe
        self.tokenizer = load_tokenizer(folder) if folder else None
        self.server = EmbeddingApi(
            recipe.model,
            base=recipe.api.base,
            dimensions=recipe.api.dimensions,
            timeout=recipe.api.timeout,
            retries=recipe.api.retries,
            budget_usd=recipe.api.budget_usd,
        )
        self._dimensions = recipe.api.dimensions

    @property
    def dimensions(self) -> int:
        """Numbers in a vector; where the recipe does not say, the server is asked for one."""
        if self._dimensions is None:
            self._dimensions = int(self.server.embed(["dimensions"]).shape[1])
        return self._dimensions

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Embed texts that are already prefixed; return float32, shape (texts, dimensions)."""
        if not texts:
            return np.zeros((0, self.dimensions), np.float32)
        clean = encodable(texts)
        if self.tokenizer is None:
            return self._send(clean)
        room = self.recipe.max_tokens - self.tokenizer.special_tokens
        if self.recipe.overflow == "average":
            return average_windows(clean, self._send, self.tokenizer, room, normalise=self.recipe.normalise)
        if self.recipe.overflow == "truncate":
            return self._send(first_windows(clean, self.tokenizer, room))
        refuse_long(clean, self.recipe, self.tokenizer)
        return self._send(clean)

    def _send(self, texts: Sequence[str]) -> Matrix:
        size = self.recipe.batch_size
        batches = [texts[at : at + size] for at in range(0, len(texts), size)]
        if len(batches) == 1:
            vectors = self.server.embed(batches[0])
        else:
            with ThreadPoolExecutor(AT_ONCE) as pool:
                vectors = np.concatenate(list(pool.map(self.server.embed, batches)))
        self._dimensions = int(vectors.shape[1])
        return unit(vectors) if self.recipe.normalise else vectors
