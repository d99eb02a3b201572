"""Embeds a few texts with a registered BERT model in numpy, without the seconds that importing torch takes.

Computes what sentence-transformers computes (BERT, arXiv:1810.04805; mean pooling, arXiv:1908.10084), one
text at a time; a test compares the two.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from rag_assay.assets.embedding.embedder import EmbedderRecipe, Matrix
from rag_assay.assets.embedding.windows import unit
from rag_assay.warehouse.encodable import all_encodable
from rag_assay.warehouse.inference import weights
from rag_assay.warehouse.paths import Home

FEW = 32  # texts: for more, the import pays


def quick_embedder(recipe: EmbedderRecipe, home: Home) -> QuickBert | None:
    """Return the embedder; None where the recipe asks for more or sentence-transformers is loaded already."""
    plain = recipe.dtype == "fp32" and recipe.overflow != "average" and recipe.device in {"auto", "cpu"}
    if recipe.api or not plain or "sentence_transformers" in sys.modules:
        return None
    if not weights.registered(recipe.model, recipe.commit):  # whose files are known to the byte
        return None
    folder = recipe.fetch(home)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if config["model_type"] != "bert" or recipe.max_tokens > config["max_position_embeddings"]:
        return None
    return _load(folder, recipe.max_tokens) if recipe.device == "cpu" or not _may_have_gpu() else None


def _may_have_gpu() -> bool:
    """Return whether there may be a GPU; importing torch to find out takes a second."""
    return sys.platform == "darwin" or any(Path("/dev").glob("nvidia[0-9]*")) or Path("/dev/kfd").exists()


class QuickBert:
    """BERT with mean pooling and vectors of length 1."""

    def __init__(self, folder: Path, max_tokens: int) -> None:
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self._layers, self._heads = int(config["num_hidden_layers"]), int(config["num_attention_heads"])
        self._epsilon = float(config["layer_norm_eps"])
        self._weights: dict[str, Matrix] = load_file(folder / "model.safetensors")
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(max_tokens)

    def embed(self, texts: Sequence[str]) -> Matrix:
        return unit(np.stack([self._one(self._tokenizer.encode(text).ids) for text in all_encodable(texts)]))

    def _one(self, tokens: list[int]) -> Matrix:
        table = self._weights
        x = (
            table["embeddings.word_embeddings.weight"][tokens]
            + table["embeddings.token_type_embeddings.weight"][0]
            + table["embeddings.position_embeddings.weight"][: len(tokens)]
        )
        x = self._norm(x, "embeddings.LayerNorm")
        for number in range(self._layers):
            x = self._layer(x, f"encoder.layer.{number}")
        return np.asarray(x.mean(axis=0), np.float32)

    def _layer(self, x: Matrix, name: str) -> Matrix:
        query, key, value = (
            self._linear(x, f"{name}.attention.self.{part}").reshape(len(x), self._heads, -1).swapaxes(0, 1)
            for part in ("query", "key", "value")
        )
        mixed = _softmax(query @ key.swapaxes(1, 2) / np.float32(np.sqrt(query.shape[-1]))) @ value
        mixed = mixed.swapaxes(0, 1).reshape(len(x), -1)
        x = self._norm(
            self._linear(mixed, f"{name}.attention.output.dense") + x, f"{name}.attention.output.LayerNorm"
        )
        wide = _gelu(self._linear(x, f"{name}.intermediate.dense"))
        return self._norm(self._linear(wide, f"{name}.output.dense") + x, f"{name}.output.LayerNorm")

    def _linear(self, x: Matrix, name: str) -> Matrix:
        return x @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]

    def _norm(self, x: Matrix, name: str) -> Matrix:
        centred = x - x.mean(axis=-1, keepdims=True)
        spread = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + np.float32(self._epsilon))
        return centred / spread * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]


def _softmax(x: Matrix) -> Matrix:
    raised = np.exp(x - x.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True)


def _gelu(x: Matrix) -> Matrix:
    from scipy.special import erf

    return np.asarray(x * np.float32(0.5) * (1 + erf(x * np.float32(np.sqrt(0.5)))), np.float32)


_load = lru_cache(maxsize=2)(QuickBert)
