"""Vectors of words without a model: feature hashing (Weinberger et al., ICML 2009, arXiv:0902.2206).

Each distinct stem ``s`` of a text adds ``sign(s) * (1 + log(count))`` at ``bucket(s)``, both from its hash. A
cosine says how many words the texts share.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from rag_assay.assets.embedding.component_embedders import OtherEmbedder
from rag_assay.assets.embedding.embedder import Embedder, Matrix
from rag_assay.assets.embedding.windows import unit
from rag_assay.assets.tokenization.stems import Language, stemmer
from rag_assay.assets.tokenization.words import plain_tokens
from rag_assay.warehouse.encodable import all_encodable

REMEMBERED = 200_000  # words whose place is remembered: some 40 MB


class Hashing(OtherEmbedder):
    """Hashes the words of a text into a vector: finds like words, not like meanings; needs no model.

    size: numbers in a vector; of fewer, more words share one
    language: whose stems are taken (Snowball); None: words as they stand
    """

    kind: ClassVar[str] = "hashing"
    code_version: ClassVar[str] = "2"

    size: Annotated[int, Field(ge=16, le=16384)] = 512
    language: Language | None = "english"

    def load(self) -> Embedder:
        return HashedWords(self)


@dataclass
class HashedWords:
    """Counts words by their hashes.

    >>> one, two, other = HashedWords(Hashing()).embed(["one ferry", "two ferries", "a harbour"])
    >>> round(float(one @ two), 2), round(float(one @ other), 2)
    (0.5, 0.0)
    """

    recipe: Hashing

    @property
    def dimensions(self) -> int:
        return self.recipe.size

    def embed(self, texts: Sequence[str]) -> Matrix:
        stem, size = _stemmer(self.recipe.language), self.recipe.size
        rows = np.zeros((len(texts), size), np.float32)
        for row, text in zip(rows, all_encodable(texts), strict=True):
            for word, count in Counter(map(stem, plain_tokens(text))).items():
                bucket, sign = _hashed(word, size)
                row[bucket] += sign * (1 + math.log(count))
            if not row.any():  # no word, or words that cancel out: the text as a whole is what it holds
                bucket, sign = _hashed(text, size)
                row[bucket] = sign
        return unit(rows) if self.recipe.normalise else rows


@lru_cache
def _stemmer(language: Language | None) -> Callable[[str], str]:
    return lru_cache(REMEMBERED)(stemmer(language))


@lru_cache(REMEMBERED)
def _hashed(text: str, size: int) -> tuple[int, int]:
    number = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
    return number // 2 % size, 1 if number % 2 else -1
