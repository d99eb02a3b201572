"""Registered models are embedded without sentence-transformers, and vectors come out the same."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from rag_assay.assets.embedding.embedder import EmbedderRecipe
from rag_assay.assets.embedding.local import LocalEmbedder
from rag_assay.assets.embedding.numpy_bert import QuickBert, quick_embedder
from rag_assay.assets.embedding.torch_bert import TorchBert
from rag_assay.warehouse.paths import Home

MINILM = "all-MiniLM-L6-v2"
TEXTS = [
    "",
    "ferry",
    "Der Fährhafen schließt im Winter um achtzehn Uhr.",
    "🛳️ 漢字 עברית \x00 x" * 9,
    "The ferry to the island runs every forty minutes and carries nineteen cars. " * 30,
]
ALONE = """
import sys
from pathlib import Path
from rag_assay.assets.embedding.cached_embedder import FEW, CachedEmbedder
from rag_assay.assets.embedding.embedder import EmbedderRecipe
from rag_assay.warehouse.paths import Home
embedder = CachedEmbedder(EmbedderRecipe(model="all-MiniLM-L6-v2"), Home(Path(sys.argv[1])))
for texts in (["ferry"], [f"ferry {n}" for n in range(FEW + 1)]):
    print(embedder.passages(texts).computed, {"torch", "sentence_transformers"} & set(sys.modules))
"""


@pytest.mark.models
@pytest.mark.parametrize("max_tokens", [16, 256])
def test_it_computes_what_sentence_transformers_computes(
    max_tokens: int, weights: Callable[[str], Path]
) -> None:
    folder = weights(MINILM)
    recipe = EmbedderRecipe(model=MINILM, max_tokens=max_tokens, overflow="truncate")
    found, expected = QuickBert(folder, max_tokens).embed(TEXTS), LocalEmbedder(recipe, folder).embed(TEXTS)
    assert found.dtype == np.float32
    assert np.allclose(found, expected, atol=1e-5)


@pytest.mark.models
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_in_torch_every_bit_is_as_of_sentence_transformers(
    dtype: Literal["fp32", "bf16"], weights: Callable[[str], Path]
) -> None:
    """Four texts and one that is padded with them, empty ones too; then one batch without padding."""
    import torch
    from sentence_transformers import SentenceTransformer

    folder = weights(MINILM)
    kind = {"fp32": torch.float32, "bf16": torch.bfloat16}[dtype]
    reference = SentenceTransformer(str(folder), device="cpu", model_kwargs={"dtype": kind})
    model = TorchBert(folder, dtype, "cpu")
    longest = 256 if dtype == "fp32" else 64  # most processors compute bf16 far slower
    for max_tokens, batch_size in ((16, 4), (longest, 2), (longest, 1)):
        reference.max_seq_length = max_tokens
        expected = reference.encode(TEXTS, batch_size=batch_size, convert_to_tensor=True).float().numpy()
        assert np.array_equal(model.encode(TEXTS, batch_size, max_tokens), expected)


@pytest.mark.models
def test_several_cores_compute_what_one_computes(weights: Callable[[str], Path]) -> None:
    """Each core computes batches of its own; afterwards, and after a failure, torch has its threads again."""
    import torch

    folder, before = weights(MINILM), torch.get_num_threads()
    texts = [f"{text} {n}" for n in range(3) for text in TEXTS]
    try:
        torch.set_num_threads(1)
        expected = TorchBert(folder, "fp32", "cpu").encode(texts, 2, 256)
        torch.set_num_threads(3)
        model = TorchBert(folder, "fp32", "cpu")
        assert np.array_equal(model.encode(texts, 2, 256), expected)
        assert torch.get_num_threads() == 3
        with pytest.raises(RuntimeError, match="size"):  # longer than the model has positions
            model.encode(["ferry " * 600] * 3, 1, 600)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


@pytest.mark.models
def test_no_new_text_needs_a_slow_import(tmp_path: Path, weights: Callable[[str], Path]) -> None:
    weights(MINILM)
    done = subprocess.run(
        [sys.executable, "-c", ALONE, str(tmp_path)],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert done.stdout.splitlines() == ["1 set()", "33 {'torch'}"]


@pytest.mark.parametrize(
    "fields",
    [
        {"dtype": "bf16"},
        {"overflow": "average"},
        {"device": "cuda"},
        {"model": "./folder"},
        {"max_tokens": 513},
    ],
)
@pytest.mark.models
def test_what_it_does_not_do_is_left_to_sentence_transformers(
    fields: dict[str, object],
    tmp_path: Path,
    weights: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    weights(MINILM)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    recipe = EmbedderRecipe(model=MINILM)
    assert quick_embedder(recipe.model_copy(update=fields), Home(tmp_path)) is None
    assert quick_embedder(recipe, Home(tmp_path)) is not None
