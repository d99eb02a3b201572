"""An embedder's own tokenizer, without loading its weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from warehouse.errors import InputError

if TYPE_CHECKING:
    from tokenizers import Tokenizer as RawTokenizer

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Words:
    """The words of a text as the tokenizer sees them, in their order.

    starts, ends: character offsets, shape (n,)
    tokens: number of tokens of each word, shape (n,); they add up to those of the text
    """

    starts: Ints
    ends: Ints
    tokens: Ints


class Tokenizer:
    """Counts and places tokens; special tokens are never included, `special_tokens` says how many a model adds."""

    def __init__(self, raw: RawTokenizer) -> None:
        self._raw = raw
        raw.no_truncation()
        raw.no_padding()
        self.special_tokens: int = raw.num_special_tokens_to_add(False)

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text."""
        return [len(encoding) for encoding in self._raw.encode_batch(list(texts), add_special_tokens=False)]

    def words(self, text: str) -> Words:
        """Split a text into the tokenizer's words (a run of letters, or one punctuation mark)."""
        encoding = self._raw.encode(text, add_special_tokens=False)
        if not len(encoding):
            empty = np.zeros(0, np.int64)
            return Words(empty, empty, empty)
        offsets = np.asarray(encoding.offsets, np.int64)
        word_ids = np.asarray([-1 if word is None else word for word in encoding.word_ids], np.int64)
        first = np.flatnonzero(np.diff(word_ids, prepend=word_ids[0] - 1))
        last = np.append(first[1:], len(word_ids)) - 1
        return Words(offsets[first, 0], offsets[last, 1], last - first + 1)


@lru_cache(maxsize=8)
def load_tokenizer(folder: Path) -> Tokenizer:
    """Load `tokenizer.json` from a model's folder."""
    from tokenizers import Tokenizer as RawTokenizer

    path = folder / "tokenizer.json"
    if not path.is_file():
        raise InputError(f"{path}: the model has no tokenizer.json, which chunking by tokens needs")
    return Tokenizer(RawTokenizer.from_file(str(path)))
