"""How many tokens of text a chunking delivers, by its parameters alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rag_assay.assets.chunking import Chunker

WINDOW = 256  # tokens, where a chunking says no size
CHARACTERS_PER_TOKEN = 4  # of English or German text, about


def window_of(chunker: Chunker) -> float:
    """
    >>> from rag_assay.assets.chunking import CHUNKERS
    >>> [window_of(CHUNKERS[kind]()) for kind in ("recursive", "structure", "parent", "document")]
    [250.0, 256.0, 1024.0, 256.0]
    """
    parameters = chunker.model_dump()
    size = parameters.get("parent_size") or parameters.get("size") or parameters.get("limit") or WINDOW
    return size / (CHARACTERS_PER_TOKEN if parameters.get("unit") == "characters" else 1)
