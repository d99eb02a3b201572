"""Draws clusters of questions with replacement, and studentises the means of what was drawn."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from rag_assay.evals.statistics.clusters import Codes, sum_clusters

Floats: TypeAlias = "npt.NDArray[np.float64]"
Counts: TypeAlias = "npt.NDArray[np.integer]"

BLOCK = 2_000_000  # numbers held at once in each table of a block: some 16 MB
KEPT = 10_000_000  # numbers of draws that are kept for what asks for the same ones: 20 MB
EQUAL = 1e-12  # smaller differences come from the order of a sum


class Sums(NamedTuple):
    """Columns summed by cluster.

    residual: of each cluster and column the sum of numbers less their mean
    n: numbers, shape (clusters, columns), or (clusters, 1) where none is missing
    """

    mean: Floats
    total: Floats
    residual: Floats
    n: Floats

    @property
    def groups(self) -> Floats:
        return np.broadcast_to((self.n > 0).sum(axis=0), self.mean.shape).astype(np.float64)

    def part(self, part: slice) -> Sums:
        n = self.n if self.n.shape[1] == 1 else self.n[:, part]
        return Sums(self.mean[part], self.total[part], self.residual[:, part], n)


def sums_of(table: Floats, clusters: Codes | None) -> Sums:
    there = ~np.isnan(table)
    total = there.sum(axis=0).astype(np.float64)
    filled = np.where(there & (np.abs(table) > EQUAL), table, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = filled.sum(axis=0) / total
    centred = np.where(there, filled - mean, 0.0)
    centred[:, np.abs(centred).max(axis=0, initial=0.0) <= EQUAL * np.abs(mean)] = 0.0
    n = np.ones((len(table), 1)) if there.all() else there.astype(np.float64)
    return Sums(mean, total, sum_clusters(centred, clusters), sum_clusters(n, clusters))


def student(mean: Floats, squares: Floats, n: Floats, groups: Floats) -> tuple[Floats, Floats]:
    """Return the standard error of means and Student's t, from the summed squares of clusters' residuals.

    The error is sqrt(G / (G - 1) * squares) / n for G clusters of n numbers (Cameron, Gelbach and Miller,
    Review of Economics and Statistics 2008). Without any spread t is infinite, and 0 where the mean is 0,
    too.
    """
    error = np.sqrt(squares * groups / np.maximum(groups - 1, 1)) / np.maximum(n, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return error, np.where(mean == 0, 0.0, mean / error)


def resample_clusters(sums: Sums, seed: int, resamples: int) -> Floats:
    residual, n = sums.residual, sums.n
    largest = np.abs(residual).max(axis=0, initial=0.0)
    squares, parts = residual**2, []
    alike = n.size > 0 and bool((n == n.flat[0]).all())  # then what sizes are multiplied with is known
    if not alike:
        crossed, sizes, held = residual * n, n**2, (n > 0).astype(float)
    for counts in draws(len(residual), seed, resamples):
        groups = np.full((1, 1), float(len(residual))) if alike else counts @ held
        total = groups * n.flat[0] if alike else counts @ n
        means = counts @ residual / np.maximum(total, 1)
        means[np.abs(means) * np.maximum(total, 1) <= EQUAL * largest * np.maximum(groups, 1)] = 0.0
        spread = counts @ squares
        if alike:
            spread -= means**2 * total * n.flat[0]
        else:
            spread += means**2 * (counts @ sizes) - 2 * means * (counts @ crossed)
        spread[spread <= EQUAL * largest**2] = 0.0
        parts.append(np.abs(student(means, spread, total, groups)[1]))
    return np.concatenate(parts)


def draws(rows: int, seed: int, resamples: int) -> Iterator[Floats]:
    """Yield how often each row is drawn, in blocks of shape (resamples, rows)."""
    known = rows * resamples <= KEPT and rows < 2**16
    for counts in _kept(rows, seed, resamples) if known else _drawn(rows, seed, resamples):
        yield counts.astype(np.float64)


@lru_cache(maxsize=2)  # a report compares many things over as many questions
def _kept(rows: int, seed: int, resamples: int) -> tuple[Counts, ...]:
    return tuple(counts.astype(np.uint16) for counts in _drawn(rows, seed, resamples))


def _drawn(rows: int, seed: int, resamples: int) -> Iterator[Counts]:
    chance = np.random.default_rng(seed)
    at_once = max(1, BLOCK // max(rows, 1))
    for begin in range(0, resamples, at_once):
        some = min(at_once, resamples - begin)
        drawn = chance.integers(0, rows, size=(some, rows)) + rows * np.arange(some)[:, None]
        yield np.bincount(drawn.ravel(), minlength=some * rows).reshape(some, rows)
