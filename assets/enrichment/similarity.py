"""Cosine similarity of chunks to the title and the tags of their document."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Matrix: TypeAlias = "npt.NDArray[np.float32]"


def tags_text(tags: Sequence[str] | None) -> str | None:
    """Return the tags of a document as one text, None where it has none.

    >>> tags_text(["ferry", "harbour"])
    'ferry, harbour'
    """
    return ", ".join(tag for tag in tags or () if tag.strip()) or None


def similarities(
    vectors: Matrix, others: Sequence[str | None], embed: Callable[[list[str]], Matrix]
) -> list[float | None]:
    """Return the cosine of each vector and the text beside it, in [-1, 1]; None without a text.

    vectors: of the chunks, shape (chunks, dimensions); others: a title or tags for each
    embed: called once, with each distinct text once
    """
    found: list[float | None] = [None] * len(others)
    distinct = list(dict.fromkeys(text for text in others if text and text.strip()))
    if not distinct:
        return found
    rows = {text: row for row, text in enumerate(distinct)}
    present = [at for at, text in enumerate(others) if text in rows]
    ours = _unit(vectors[present])
    theirs = _unit(embed(distinct))[[rows[others[at] or ""] for at in present]]
    for at, cosine in zip(present, np.einsum("ij,ij->i", ours, theirs).tolist(), strict=True):
        found[at] = max(-1.0, min(1.0, cosine))
    return found


def _unit(vectors: Matrix) -> Matrix:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-12))
