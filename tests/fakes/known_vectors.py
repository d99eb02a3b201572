"""Vectors of texts that this process has embedded: tests embed the same few texts in thousands of studies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rag_assay.assets.embedding.local import LocalEmbedder

if TYPE_CHECKING:
    from rag_assay.assets.embedding.embedder import Matrix

_ENCODE = LocalEmbedder.encode
_known: dict[tuple[object, ...], Matrix] = {}


def encode_once(self: LocalEmbedder, texts: Sequence[str]) -> Matrix:
    """Return what `LocalEmbedder.encode` returns; the model computes only the texts that are new to it.

    A loaded model is part of the key, and stays: other weights or another precision are another one.
    """
    of = (self.model, self.recipe.max_tokens, self.recipe.normalise)
    new = [text for text in dict.fromkeys(texts) if (*of, text) not in _known]
    if new:
        _known.update(zip(((*of, text) for text in new), _ENCODE(self, new), strict=True))
    return np.stack([_known[*of, text] for text in texts])
