"""Embeds a few texts with a registered BERT model in numpy, without the seconds that importing torch takes.

Computes what sentence-transformers computes (BERT, arXiv:1810.04805; mean pooling, arXiv:1908.10084), one
text at a time; a test compares the two.
"""

from __future__ import annotations

import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rag_assay.assets.embedding.windows import unit
from rag_assay.warehouse.encodable import all_encodable
from rag_assay.warehouse.inference import weights

if TYPE_CHECKING:
    from rag_assay.assets.embedding.embedder import EmbedderRecipe, Matrix
    from rag_assay.warehouse.paths import Home

FEW = 32  # for more texts, importing torch is faster


def is_registered_bert(recipe: EmbedderRecipe, folder: Path) -> bool:
    """Return whether `Bert` computes the model: the files of registered weights are known to the byte."""
    if not weights.registered(recipe.model, recipe.commit):
        return False
    return bool(_config(folder)["model_type"] == "bert")


def quick_embedder(recipe: EmbedderRecipe, home: Home) -> QuickBert | None:
    """Return the embedder; None: the recipe needs more, or torch is imported already."""
    plain = recipe.dtype == "fp32" and recipe.overflow != "average" and recipe.device in {"auto", "cpu"}
    if recipe.api or not plain or "torch" in sys.modules:
        return None
    if not weights.registered(recipe.model, recipe.commit):  # before anything is fetched
        return None
    folder = recipe.fetch(home)
    if (
        not is_registered_bert(recipe, folder)
        or recipe.max_tokens > _config(folder)["max_position_embeddings"]
    ):
        return None
    return _load(folder, recipe.max_tokens) if recipe.device == "cpu" or not _may_have_gpu() else None


def _config(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return found


def _may_have_gpu() -> bool:
    """Return whether there may be a GPU; importing torch to find out takes a second."""
    return sys.platform == "darwin" or any(Path("/dev").glob("nvidia[0-9]*")) or Path("/dev/kfd").exists()


class Bert(ABC):
    """BERT's layers in any array library; tensors have the names of the weights file."""

    _weights: Mapping[str, Any]

    def __init__(self, folder: Path) -> None:
        from tokenizers import Tokenizer

        self.config = _config(folder)
        self.dimensions = int(self.config["hidden_size"])
        self.positions: int | None = self.config["max_position_embeddings"]
        self._heads, self._epsilon = int(self.config["num_attention_heads"]), self.config["layer_norm_eps"]
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))

    def _layers(self, x: Any, mask: Any = None) -> Any:
        for number in range(self.config["num_hidden_layers"]):
            name = f"encoder.layer.{number}"
            query, key, value = (
                self._linear(x, f"{name}.attention.self.{part}") for part in ("query", "key", "value")
            )
            mixed = self._attention(query, key, value, mask)
            mixed = self._linear(mixed, f"{name}.attention.output.dense")
            x = self._norm(mixed + x, f"{name}.attention.output.LayerNorm")
            wide = self._gelu(self._linear(x, f"{name}.intermediate.dense"))
            x = self._norm(self._linear(wide, f"{name}.output.dense") + x, f"{name}.output.LayerNorm")
        return x

    @abstractmethod
    def _attention(self, query: Any, key: Any, value: Any, mask: Any) -> Any: ...

    @abstractmethod
    def _linear(self, x: Any, name: str) -> Any: ...

    @abstractmethod
    def _norm(self, x: Any, name: str) -> Any: ...

    @abstractmethod
    def _gelu(self, x: Any) -> Any: ...


class QuickBert(Bert):
    """BERT with mean pooling and vectors of length 1."""

    def __init__(self, folder: Path, max_tokens: int) -> None:
        from safetensors.numpy import load_file

        super().__init__(folder)
        self._weights = load_file(folder / "model.safetensors")
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(max_tokens)

    def embed(self, texts: Sequence[str]) -> Matrix:
        return unit(np.stack([self._one(self.tokenizer.encode(text).ids) for text in all_encodable(texts)]))

    def _one(self, tokens: list[int]) -> Matrix:
        table = self._weights
        x = (
            table["embeddings.word_embeddings.weight"][tokens]
            + table["embeddings.token_type_embeddings.weight"][0]
            + table["embeddings.position_embeddings.weight"][: len(tokens)]
        )
        x = self._layers(self._norm(x, "embeddings.LayerNorm"))
        return np.asarray(x.mean(axis=0), np.float32)

    def _attention(self, query: Matrix, key: Matrix, value: Matrix, mask: None) -> Matrix:
        query, key, value = (
            one.reshape(len(one), self._heads, -1).swapaxes(0, 1) for one in (query, key, value)
        )
        mixed = _softmax(query @ key.swapaxes(1, 2) / np.float32(np.sqrt(query.shape[-1]))) @ value
        return mixed.swapaxes(0, 1).reshape(mixed.shape[1], -1)

    def _linear(self, x: Matrix, name: str) -> Matrix:
        return x @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]

    def _norm(self, x: Matrix, name: str) -> Matrix:
        centred = x - x.mean(axis=-1, keepdims=True)
        spread = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + np.float32(self._epsilon))
        return centred / spread * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]

    def _gelu(self, x: Matrix) -> Matrix:
        from scipy.special import erf

        return np.asarray(x * np.float32(0.5) * (1 + erf(x * np.float32(np.sqrt(0.5)))), np.float32)


def _softmax(x: Matrix) -> Matrix:
    raised = np.exp(x - x.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True)


_load = lru_cache(maxsize=2)(QuickBert)
