"""The words of a text as a tokenizer sees them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Words:
    """The words of a text, in their order.

    starts, ends: character offsets, shape (n,)
    tokens: number of tokens of each word, shape (n,); they add up to those of the text
    """

    starts: Ints
    ends: Ints
    tokens: Ints


def no_words() -> Words:
    """Return the words of a text without any."""
    empty = np.zeros(0, np.int64)
    return Words(empty, empty, empty)
