"""How long texts are by a cell's tokenizer, with a bound that no text escapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

BYTES_PER_TOKEN = 8  # of UTF-8, at most

Count = Callable[[Sequence[str]], list[int]]
"""Texts -> the tokens of each."""


def bound_count(count: Count) -> Count:
    """Return a count by which a string that the tokenizer takes for one unknown word is long all the same.

    >>> def words(texts):
    ...     return [len(text.split()) for text in texts]
    >>> bound_count(words)(["It leaves at noon.", "x" * 800])
    [4, 100]
    """

    def sizes(texts: Sequence[str]) -> list[int]:
        lengths = [len(text.encode(errors="replace")) // BYTES_PER_TOKEN for text in texts]
        return [max(pair) for pair in zip(count(texts), lengths, strict=True)]

    return sizes
