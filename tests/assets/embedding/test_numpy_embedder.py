"""A handful of texts is embedded without sentence-transformers, and comes out the same."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rag_assay.assets.embedding.embedder import EmbedderRecipe
from rag_assay.assets.embedding.local import LocalEmbedder
from rag_assay.assets.embedding.numpy_embedder import QuickBert, quick_embedder
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
from rag_assay.assets.embedding.cached_embedder import CachedEmbedder
from rag_assay.assets.embedding.embedder import EmbedderRecipe
from rag_assay.warehouse.paths import Home
embedder = CachedEmbedder(EmbedderRecipe(model="all-MiniLM-L6-v2"), Home(Path(sys.argv[1])))
print(embedder.passages(["ferry"]).computed, "sentence_transformers" in sys.modules)
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
def test_one_new_text_needs_no_slow_import(tmp_path: Path, weights: Callable[[str], Path]) -> None:
    weights(MINILM)
    done = subprocess.run(
        [sys.executable, "-c", ALONE, str(tmp_path)],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert done.stdout.split() == ["1", "False"]


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
    monkeypatch.delitem(sys.modules, "sentence_transformers", raising=False)
    recipe = EmbedderRecipe(model=MINILM)
    assert quick_embedder(recipe.model_copy(update=fields), Home(tmp_path)) is None
    assert quick_embedder(recipe, Home(tmp_path)) is not None
