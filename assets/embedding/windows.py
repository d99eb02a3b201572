"""Texts longer than a model reads: detected, cut, or embedded window by window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from rag_assay.assets.chunking.tokens import token_windows
from rag_assay.warehouse.errors import InputError

if TYPE_CHECKING:
    from rag_assay.assets.embedding.embedder import EmbedderRecipe, Matrix
    from rag_assay.assets.tokenization.tokenizer import Tokenizer

COUNTED = 1024  # texts that are tokenised together: their tokens are held only to be counted


def count_tokens(texts: Sequence[str], tokenizer: Tokenizer) -> list[int]:
    counts: list[int] = []
    for at in range(0, len(texts), COUNTED):
        counts += tokenizer.count(texts[at : at + COUNTED])
    return [count + tokenizer.special_tokens for count in counts]


def refuse_long(texts: Sequence[str], recipe: EmbedderRecipe, tokenizer: Tokenizer) -> None:
    """Raise `InputError` when a text has more tokens than the model reads."""
    counts = count_tokens(texts, tokenizer)
    long = sum(count > recipe.max_tokens for count in counts)
    if long:
        raise InputError(
            f"embedder {recipe.model}: {long} of {len(texts)} texts are longer than the {recipe.max_tokens} "
            f"tokens that it reads (longest: {max(counts)}, special tokens included); say `overflow: "
            "truncate` or `overflow: average`, or raise max_tokens if the model allows it"
        )


def first_windows(texts: Sequence[str], tokenizer: Tokenizer, room: int) -> list[str]:
    """Cut each text after the words that fit into ``room`` tokens."""
    cut = []
    # Counted, not guessed by characters: one of them may be several tokens.
    for text, count in zip(texts, count_tokens(texts, tokenizer), strict=True):
        spans = token_windows(text, tokenizer, room) if count - tokenizer.special_tokens > room else []
        cut.append(text[: spans[0].end] if spans else text)
    return cut


def average_windows(
    texts: Sequence[str],
    embed: Callable[[list[str]], Matrix],
    tokenizer: Tokenizer,
    room: int,
    *,
    normalise: bool,
) -> Matrix:
    """Embed windows of ``room`` tokens, averaged by their tokens; a text without words is kept whole."""
    pieces: list[str] = []
    parts: list[tuple[int, list[int]]] = []  # of each text: its first piece, and the tokens of its pieces
    for text in texts:
        spans = token_windows(text, tokenizer, room)
        parts.append((len(pieces), [max(1, span.n_tokens) for span in spans] or [1]))
        pieces += [text[span.start : span.end] for span in spans] or [text]
    vectors = embed(pieces)
    result = np.zeros((len(texts), vectors.shape[1]), np.float32)
    for row, (first, tokens) in enumerate(parts):
        weights = np.array(tokens, np.float32)
        result[row] = weights @ vectors[first : first + len(tokens)] / weights.sum()
    return unit(result) if normalise else result


def unit(vectors: Matrix) -> Matrix:
    """Bring each row to length 1; a row of zeros stays.

    >>> unit(np.array([[3, 4], [0, 0]], np.float32)).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-12), np.float32)
