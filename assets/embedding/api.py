"""Embeddings from a server through LiteLLM."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rag_assay.assets.embedding.windows import average_windows, first_windows, refuse_long, unit
from rag_assay.assets.tokenization.tokenizer import load_tokenizer
from rag_assay.warehouse.encodable import all_encodable
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.identity import sha256_text

if TYPE_CHECKING:
    from rag_assay.assets.embedding.embedder import EmbedderRecipe, Matrix
    from rag_assay.warehouse.vectors import VectorCache

PROBE = "The ferry leaves at noon."  # a text whose vector tells a server's model from another one
SAME = 0.99  # least cosine of two vectors of one text by one model: servers do not always sum alike


class ApiEmbedder:
    """A server's model: texts in, vectors out. ``folder``: of the tokenizer that counts, if there is one."""

    def __init__(self, recipe: EmbedderRecipe, folder: Path | None) -> None:
        if recipe.api is None:
            raise ValueError("the recipe names no api")
        self.recipe = recipe
        self.tokenizer = load_tokenizer(folder) if folder else None
        from rag_assay.warehouse.inference.embedding_api import EmbeddingApi

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
        if not texts:
            return np.zeros((0, self.dimensions), np.float32)
        clean = all_encodable(texts)
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
        parts = [self.server.embed(texts[at : at + size]) for at in range(0, len(texts), size)]
        vectors = np.concatenate(parts)
        self._dimensions = int(vectors.shape[1])
        return unit(vectors) if self.recipe.normalise else vectors


def refuse_another_model(embedder: ApiEmbedder, cache: VectorCache) -> None:
    """Raise `AssayError` if the server's vector of a probe text changed: another model's vectors must not be
    mixed in. Keep the vector if there is none yet.
    """
    key = sha256_text(PROBE)
    now, before = embedder.embed([PROBE]), cache.take([key])
    if not before.known[0]:
        cache.put([key], now)
        return
    there = before.vectors
    cosine = float((unit(now) @ unit(there).T)[0, 0]) if now.shape == there.shape else 0.0
    if cosine < SAME:
        raise AssayError(
            f"embedder {embedder.recipe.model}: the server does not give the vector of a text that it gave "
            f"before ({there.shape[1]} numbers then, {now.shape[1]} now, cosine {cosine:.3f}), so its model "
            f"is another one. Give it another name (`model`), or delete {cache.folder}"
        )
