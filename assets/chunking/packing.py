"""Packs consecutive pieces of a text into windows up to a length limit."""

from __future__ import annotations

import numpy as np

from rag_assay.assets.tokenization.tokenizer import Ints


def pack(sums: Ints, size: int, shared: Ints) -> list[tuple[int, int]]:
    """Return (first piece, piece after the last) of each window.

    Args:
        sums: total length before each piece, and of all, shape (pieces + 1,); no piece is longer than
            ``size``.
        size: maximal length of a window.
        shared: for each piece after a window: the piece that the next window begins with, to overlap; it
            begins
            later if the next piece would not fit, shape (pieces + 1,).

    >>> sums = np.array([0, 1, 2, 3, 4, 5])
    >>> pack(sums, 3, at_least(sums, 1))
    [(0, 3), (2, 5)]
    >>> sums = np.array([0, 4, 8, 13])
    >>> pack(sums, 8, at_least(sums, 4))  # 4 + 5 would be too much
    [(0, 2), (2, 3)]
    """
    n_pieces = len(sums) - 1
    if sums[-1] - sums[0] <= size:
        return [(0, n_pieces)] if n_pieces else []
    # By the first piece of a window: the piece after its last.
    after = np.searchsorted(sums, sums + size, side="right") - 1
    # By the piece after its last: where the first window begins that has room for a piece more.
    fitting = np.searchsorted(sums, sums[1:] - size, side="left")
    begin = np.maximum(shared[:-1], fitting).tolist()
    windows, first, ends = [], 0, after.tolist()
    while True:
        last = ends[first]
        windows.append((first, last))
        if last >= n_pieces:
            return windows
        first = begin[last]


def at_least(sums: Ints, overlap: int) -> Ints:
    """Share ``overlap``, and up to one piece more; -1 where there is less than that before it.

    >>> at_least(np.array([0, 2, 4, 6]), 3)
    array([-1, -1,  0,  1])
    """
    return np.searchsorted(sums, sums - overlap, side="right") - 1


def at_most(sums: Ints, overlap: int) -> Ints:
    """Share as many whole pieces as are no longer than ``overlap`` together.

    >>> at_most(np.array([0, 2, 4, 6]), 3)
    array([0, 0, 1, 2])
    """
    return np.searchsorted(sums, sums - overlap, side="left")


def pieces(count: int, overlap: int) -> Ints:
    """Share a number of pieces.

    >>> pieces(4, 1)
    array([0, 0, 1, 2, 3])
    """
    return np.maximum(np.arange(count + 1) - overlap, 0)
