"""Embedders: sentence-transformers models from the registry, on whatever device there is."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, field_validator

from warehouse.errors import InputError
from warehouse.identity import digest
from warehouse.recipe import Recipe

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

Matrix = npt.NDArray[np.float32]


class EmbedderRecipe(Recipe):
    """Which model turns texts into vectors, and what it does with texts that are too long for it.

    model: a name of the model registry (`assay models list`)
    max_tokens: how many tokens the model reads, its special tokens included (all-MiniLM-L6-v2: 256 as
        published, 512 at most)
    overflow: a longer chunk is an error (`fail`), is cut (`truncate`, as BEIR does), or its windows are
        embedded one by one and averaged (`average`)
    """

    code_version: ClassVar[str] = "1"

    model: str
    max_tokens: Annotated[int, Field(ge=16, le=32768)] = 256
    overflow: Literal["fail", "truncate", "average"] = "fail"
    query_prefix: str = ""
    passage_prefix: str = ""

    @field_validator("model")
    @classmethod
    def _is_an_embedder(cls, name: str) -> str:
        from warehouse import models

        known = [model.name for model in models.known() if model.kind == "embedder"]
        if name not in known:
            raise ValueError(f"unknown embedding model {name!r}; known are {', '.join(known)}")
        return name

    def revision(self) -> str:
        """Return the digest of all that changes the vector of a given text: the key of the vector cache."""
        from warehouse import models

        return digest([models.digest(self.model), self.max_tokens, self.overflow, self.code_version])


class Embedder:
    """A loaded embedder: texts in, unit vectors out."""

    def __init__(self, recipe: EmbedderRecipe, folder: Path) -> None:
        from assets.embedding.tokenizer import load_tokenizer

        self.recipe = recipe
        self.tokenizer = load_tokenizer(folder)
        self.model = _load(folder)
        positions = _positions(self.model)
        if recipe.max_tokens > positions:
            raise InputError(
                f"embedder {recipe.model}: max_tokens is {recipe.max_tokens}, but the model reads "
                f"{positions} tokens at most; lower max_tokens"
            )
        self.dimensions = int(self.model.get_embedding_dimension() or 0)

    @property
    def room(self) -> int:
        """How many tokens of text fit, once the special tokens are counted."""
        return self.recipe.max_tokens - self.tokenizer.special_tokens

    def embed(self, texts: Sequence[str], batch_size: int = 32) -> Matrix:
        """Embed texts that are already prefixed; return unit vectors, float32, shape (texts, dimensions)."""
        if not texts:
            return np.zeros((0, self.dimensions), np.float32)
        if self.recipe.overflow == "average":
            return self._average(texts, batch_size)
        return self._encode(texts, batch_size)

    def _encode(self, texts: Sequence[str], batch_size: int) -> Matrix:
        self.model.max_seq_length = self.recipe.max_tokens  # recipes of one model share its loaded weights
        vectors = self.model.encode(
            list(texts), batch_size=batch_size, normalize_embeddings=True, show_progress_bar=False
        )
        return np.asarray(vectors, np.float32)

    def _average(self, texts: Sequence[str], batch_size: int) -> Matrix:
        """Embed windows and average them by their tokens, then bring the mean back to length 1."""
        from assets.chunking.tokens import token_windows

        spans = [token_windows(text, self.tokenizer, self.room) for text in texts]
        pieces = [text[s.start : s.end] for text, parts in zip(texts, spans, strict=True) for s in parts]
        vectors = self._encode(pieces, batch_size) if pieces else np.zeros((0, self.dimensions), np.float32)
        result = np.zeros((len(texts), self.dimensions), np.float32)
        at = 0
        for row, parts in enumerate(spans):
            weights = np.array([max(1, s.n_tokens) for s in parts], np.float32)
            if len(parts):
                result[row] = weights @ vectors[at : at + len(parts)]
                result[row] /= max(float(np.linalg.norm(result[row])), 1e-12)
            at += len(parts)
        return result


def _positions(model: SentenceTransformer) -> int:
    """Return how many tokens a model has positions for; the MPNet and RoBERTa families keep two back."""
    config: Any = model[0].auto_model.config
    offset = 2 if config.model_type in {"mpnet", "roberta", "xlm-roberta"} else 0
    return int(config.max_position_embeddings) - offset


@lru_cache(maxsize=2)
def _load(folder: Path) -> SentenceTransformer:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    logging.getLogger("sentence_transformers").setLevel(logging.WARNING)
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    return SentenceTransformer(str(folder))
