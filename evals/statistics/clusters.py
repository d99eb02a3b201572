"""Clusters of questions that are not independent of each other: those that share documents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = "npt.NDArray[np.float64]"
Codes: TypeAlias = "npt.NDArray[np.int64]"
"""The number of each question's cluster, from 0 without gaps, shape (questions,)."""


def sum_clusters(table: Floats, clusters: Codes | None) -> Floats:
    """Return column sums by cluster, shape (clusters, columns); the table without clusters."""
    if clusters is None:
        return table
    if not len(table):
        return table
    order = np.argsort(clusters, kind="stable")
    starts = np.flatnonzero(np.diff(clusters[order], prepend=-1))
    return np.add.reduceat(table[order], starts, axis=0)


def codes(names: Sequence[object]) -> Codes:
    """Number clusters in the order of their first occurrence.

    >>> codes(["b", "a", "b"]).tolist()
    [0, 1, 0]
    """
    known: dict[object, int] = {}
    return np.array([known.setdefault(name, len(known)) for name in names], np.int64)


def by_documents(documents: Sequence[Iterable[str]]) -> Codes:
    """Cluster questions that share gold documents, transitively.

    >>> by_documents([["a"], ["b"], [], ["a", "c"], ["c"], []]).tolist()
    [0, 1, 2, 0, 0, 3]
    """
    parent = list(range(len(documents)))

    def root(at: int) -> int:
        while parent[at] != at:
            parent[at] = at = parent[parent[at]]
        return at

    first: dict[str, int] = {}
    for at, held in enumerate(documents):
        for document in held:
            one, other = sorted((root(first.setdefault(document, at)), root(at)))
            parent[other] = one
    return codes([root(at) for at in range(len(documents))])


def effective(clusters: Codes) -> float:
    """Return how many clusters of equal size would be as good: (sum of sizes)^2 / sum of squared sizes.

    (Carter, Schnepel and Steigerwald, Review of Economics and Statistics 2017; Kish 1965.)

    >>> effective(np.array([0, 1, 2, 3])), effective(np.array([0, 0, 0, 1]))
    (4.0, 1.6)
    """
    sizes = np.bincount(clusters).astype(np.float64)
    return float(sizes.sum() ** 2 / (sizes**2).sum()) if len(clusters) else 0.0
