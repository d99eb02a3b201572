"""Embeds texts with a registered BERT model in torch alone.

Importing sentence-transformers takes three times as long as importing torch. Steps and batches are those of
sentence-transformers, so that vectors are equal bit for bit; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from rag_assay.assets.embedding.numpy_bert import Bert

if TYPE_CHECKING:
    from rag_assay.assets.embedding.embedder import Matrix


class TorchBert(Bert):
    """BERT with mean pooling, in batches; device: None: the first available of cuda, mps and cpu."""

    def __init__(self, folder: Path, dtype: Literal["fp32", "bf16"], device: str | None) -> None:
        import torch
        from safetensors.torch import load_file
        from torch.nn import functional

        super().__init__(folder)
        self.pools_prompts = True
        self._torch, self._functional = torch, functional
        if device is None:
            there = (("cuda", torch.cuda.is_available), ("mps", torch.backends.mps.is_available))
            device = next((name for name, is_there in there if is_there()), "cpu")
        self.device = torch.device(device)
        self._threads = torch.get_num_threads() if self.device.type == "cpu" else 1
        kind = torch.bfloat16 if dtype == "bf16" else torch.float32
        table = load_file(folder / "model.safetensors", device=device)
        self._weights = {key: one.to(kind) if one.is_floating_point() else one for key, one in table.items()}
        self.tokenizer.enable_padding(pad_id=self.config["pad_token_id"])

    def encode(self, texts: Sequence[str], batch_size: int, max_tokens: int) -> Matrix:
        """Return vectors of shape (texts, dimensions), of length 1 in the precision of ``dtype``."""
        self.tokenizer.enable_truncation(max_tokens)
        order = np.argsort([-len(text) for text in texts])  # long ones first, as sentence-transformers sorts
        vectors = np.zeros((len(texts), self.dimensions), np.float32)

        def compute(rows: Any) -> None:
            with self._torch.inference_mode():
                vectors[rows] = self._batch([texts[row] for row in rows]).float().cpu().numpy()

        batches = [order[at : at + batch_size] for at in range(0, len(order), batch_size)]
        if 1 in (self._threads, len(batches)):
            for rows in batches:
                compute(rows)
            return vectors
        # Each core computes a batch. Cores that share one wait for each other, and long on a busy machine.
        try:
            with ThreadPoolExecutor(
                self._threads, initializer=self._torch.set_num_threads, initargs=(1,)
            ) as pool:
                list(pool.map(compute, batches))
        finally:
            self._torch.set_num_threads(self._threads)
        return vectors

    def _batch(self, texts: list[str]) -> Any:
        torch = self._torch
        encoded = self.tokenizer.encode_batch(texts)
        ids = torch.tensor([one.ids for one in encoded], device=self.device)
        mask = torch.tensor([one.attention_mask for one in encoded], device=self.device)
        x = self._weights["embeddings.word_embeddings.weight"][ids]
        x = x + self._weights["embeddings.token_type_embeddings.weight"][0]
        x = x + self._weights["embeddings.position_embeddings.weight"][: ids.shape[1]]
        width = ids.shape[1]
        attended = None if mask.all() else mask.bool()[:, None, None, :].expand(-1, 1, width, width)
        x = self._layers(self._norm(x, "embeddings.LayerNorm"), attended)
        kept = mask.unsqueeze(-1).to(x.dtype)
        total = (x * kept).sum(dim=1, dtype=torch.float32)
        mean = (total / kept.sum(dim=1, dtype=torch.float32).clamp(min=1e-9)).to(x.dtype)
        return self._functional.normalize(mean, p=2, dim=1)

    def _attention(self, query: Any, key: Any, value: Any, mask: Any) -> Any:
        query, key, value = (
            one.view(*one.shape[:2], self._heads, -1).transpose(1, 2) for one in (query, key, value)
        )
        mixed = self._functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return mixed.transpose(1, 2).flatten(2)

    def _linear(self, x: Any, name: str) -> Any:
        return self._functional.linear(x, self._weights[f"{name}.weight"], self._weights[f"{name}.bias"])

    def _norm(self, x: Any, name: str) -> Any:
        weight, bias = self._weights[f"{name}.weight"], self._weights[f"{name}.bias"]
        return self._functional.layer_norm(x, weight.shape, weight, bias, self._epsilon)

    def _gelu(self, x: Any) -> Any:
        return self._functional.gelu(x)
