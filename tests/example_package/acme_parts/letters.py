"""An embedder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from rag_assay.assets.embedding.component_embedders import OtherEmbedder
from rag_assay.assets.embedding.embedder import Embedder, Matrix


class Letters(OtherEmbedder):
    """Counts the letters of a text.

    letters: how many of the alphabet are counted
    """

    kind: ClassVar[str] = "acme_letters"

    letters: Annotated[int, Field(ge=2, le=26)] = 26

    def load(self) -> Embedder:
        """Return what counts."""
        return _Counting(self)


@dataclass
class _Counting:
    recipe: Letters

    @property
    def dimensions(self) -> int:
        return self.recipe.letters + 1

    def embed(self, texts: Sequence[str]) -> Matrix:
        letters = [chr(ord("a") + place) for place in range(self.recipe.letters)]
        counts = [[1.0, *(text.casefold().count(letter) for letter in letters)] for text in texts]
        vectors = np.array(counts, np.float32).reshape(len(texts), self.dimensions)
        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
