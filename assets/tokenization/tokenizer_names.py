"""Tokenizers by the names that chunkings say."""

from __future__ import annotations

from collections.abc import Callable

from rag_assay.assets.tokenization.tokenizer import Tokenizer, load_tokenizer
from rag_assay.warehouse.inference import weights
from rag_assay.warehouse.paths import Home


def weights_of(name: str) -> tuple[str, str | None]:
    """Return the model and the revision that the name of a chunking's tokenizer stands for.

    >>> weights_of("all-MiniLM-L6-v2"), weights_of("./models/mine@2"), weights_of("owner/name@0123")
    (('all-MiniLM-L6-v2', None), ('./models/mine@2', None), ('owner/name', '0123'))
    """
    if name.startswith((".", "/", "~")):
        return name, None
    model, _, revision = name.partition("@")
    return model, revision or None


def tokenizer_of(name: str, home: Home, say: Callable[[str], None]) -> Tokenizer:
    """Load the tokenizer that a chunking names, fetching its model if it is not there."""
    return load_tokenizer(weights.fetch(*weights_of(name), home, say))
