"""Embedding by models in a local folder, on CPU or GPU."""

from __future__ import annotations

import logging
import os
import platform
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from rag_assay.assets.embedding.numpy_bert import is_registered_bert
from rag_assay.assets.embedding.torch_bert import TorchBert
from rag_assay.assets.embedding.windows import average_windows, count_tokens, refuse_long, unit
from rag_assay.assets.tokenization.tokenizer import load_tokenizer
from rag_assay.warehouse.encodable import all_encodable
from rag_assay.warehouse.errors import InputError

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from rag_assay.assets.embedding.embedder import EmbedderRecipe, Matrix

BATCH_TOKENS = 1_024  # of a batch on a processor: larger ones leave its cache


class LocalEmbedder:
    """A loaded model; loaded models are shared while ``identity``, of the weights, stays the same."""

    def __init__(self, recipe: EmbedderRecipe, folder: Path, identity: str = "") -> None:
        self.recipe = recipe
        self.tokenizer = load_tokenizer(folder)
        is_plain = is_registered_bert(recipe, folder)
        self.model = _load(folder, recipe.dtype, recipe.device, identity, is_plain=is_plain)
        positions = self.model.positions
        if positions is not None and recipe.max_tokens > positions:
            raise InputError(
                f"embedder {recipe.model}: max_tokens is {recipe.max_tokens}, but the model reads "
                f"{positions} tokens at most; lower max_tokens"
            )
        if not self.model.pools_prompts and (recipe.query_prompt or recipe.passage_prompt):
            raise InputError(
                f"embedder {recipe.model}: the model leaves its prompts out when it pools, which is not "
                "supported; leave query_prompt and passage_prompt out"
            )
        self.dimensions = self.model.dimensions

    @property
    def room(self) -> int:
        return self.recipe.max_tokens - self.tokenizer.special_tokens

    def embed(self, texts: Sequence[str]) -> Matrix:
        if not texts:
            return np.zeros((0, self.dimensions), np.float32)
        clean = all_encodable(texts)
        if self.recipe.overflow == "average":
            return average_windows(
                clean, self.encode, self.tokenizer, self.room, normalise=self.recipe.normalise
            )
        if self.recipe.overflow == "fail":
            refuse_long(clean, self.recipe, self.tokenizer)
        return self.encode(clean)

    def encode(self, texts: Sequence[str]) -> Matrix:
        vectors = self.model.encode(texts, self._batch_size(texts), self.recipe.max_tokens)
        # Not by the model: a length that is computed in bf16 is off by a thousandth.
        return unit(vectors) if self.recipe.normalise else vectors

    def _batch_size(self, texts: Sequence[str]) -> int:
        """Return how many texts are computed together: on a processor, as many as its cache takes."""
        if self.model.device.type != "cpu":
            return self.recipe.batch_size
        longest = max(1, min(max(count_tokens(texts, self.tokenizer)), self.recipe.max_tokens))
        return max(1, min(self.recipe.batch_size, BATCH_TOKENS // longest))


class VectorModel(Protocol):
    """Loaded weights: ``encode`` gives float32, shape (texts, dimensions).

    positions: tokens that the model reads at most; None: any number
    pools_prompts: whether the tokens of a prompt are part of the mean
    """

    dimensions: int
    positions: int | None
    pools_prompts: bool
    device: Any

    def encode(self, texts: Sequence[str], batch_size: int, max_tokens: int) -> Matrix: ...


class SentenceModel:
    """Any model that sentence-transformers loads."""

    def __init__(self, model: SentenceTransformer) -> None:
        model.default_prompt_name = None  # prefixes are part of the text here, and of its hash
        config: Any = getattr(model[0], "auto_model", model[0]).config
        most = getattr(config, "max_position_embeddings", None)
        offset = 2 if config.model_type in {"mpnet", "roberta", "xlm-roberta"} else 0
        self.positions = int(most) - offset if most else None
        self.pools_prompts = all(getattr(module, "include_prompt", True) for module in model)
        self.dimensions = int(model.get_embedding_dimension() or 0)
        self.device: Any = model.device
        self._model = model

    def encode(self, texts: Sequence[str], batch_size: int, max_tokens: int) -> Matrix:
        self._model.max_seq_length = max_tokens  # recipes of one model share its loaded weights
        found = self._model.encode(
            list(texts), batch_size=batch_size, show_progress_bar=False, convert_to_tensor=True
        )
        return np.asarray(found.float().cpu().numpy(), np.float32)


def has_bf16() -> bool:
    """Return whether this machine's processor computes in bf16 itself; else it would be slower than fp32."""
    import torch

    if platform.machine().lower() in {"x86_64", "amd64"}:
        able = torch.cpu.get_capabilities()
        return bool(able.get("avx512_bf16") or able.get("amx_bf16"))
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def _device(wanted: str) -> str | None:
    import torch

    there = {"cuda": torch.cuda.is_available, "mps": torch.backends.mps.is_available}
    if wanted in there and not there[wanted]():
        raise InputError(f"`device: {wanted}`: this machine has none that torch can use; say `auto` or `cpu`")
    return None if wanted == "auto" else wanted


@lru_cache(maxsize=3)
def _load(
    folder: Path, dtype: Literal["fp32", "bf16"], device: str, identity: str, *, is_plain: bool
) -> VectorModel:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    where = _device(device)
    try:
        model: VectorModel = (
            TorchBert(folder, dtype, where) if is_plain else _sentence_model(folder, dtype, where)
        )
    except Exception as error:  # transformers raises its own, Rust's and plain Python errors
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise InputError(f"{folder}: the model cannot be loaded ({reason})") from error
    if dtype == "bf16" and model.device.type == "cpu" and not has_bf16():
        raise InputError(
            "`dtype: bf16`: the processor of this machine does not compute in bf16, so it would be slower "
            "than fp32; say `dtype: fp32`"
        )
    return model


def _sentence_model(folder: Path, dtype: Literal["fp32", "bf16"], device: str | None) -> SentenceModel:
    logging.getLogger("sentence_transformers").setLevel(logging.WARNING)
    import torch
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    # Warnings about unused pooling layers.
    transformers_logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    kind = torch.bfloat16 if dtype == "bf16" else torch.float32
    options = {"dtype": kind, "use_safetensors": True}  # pickled weights are programs
    return SentenceModel(
        SentenceTransformer(str(folder), device=device, local_files_only=True, model_kwargs=options)
    )
