"""Names of cells for readers: the axes on which they differ."""

from __future__ import annotations

from collections.abc import Callable, Collection

Labels = Callable[[str], str]


def labels_of(cells: Collection[str]) -> Labels:
    """Return what writes a cell's key by the axes on which these cells differ, by all where there is one.

    >>> label = labels_of(["s.t.e.bm25.g", "s.t.e.dense.g", "s.u.e.dense.g"])
    >>> label("s.u.e.bm25.g")
    'u · bm25'
    """
    axes = [cell.split(".")[1:] for cell in cells]
    width = max(map(len, axes), default=0)
    differing = [at for at in range(width) if len({tuple(one[at : at + 1]) for one in axes}) > 1]

    def label(cell: str) -> str:
        parts = cell.split(".")[1:]
        shown = [parts[at] for at in differing if at < len(parts)] or parts
        return " · ".join(shown)

    return label
