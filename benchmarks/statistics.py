"""How often intervals of means and of paired differences hold the truth (`benchmarks.verdict`: the verdict).

Studies are simulated whose truth is known. A cell's value of a question depends on the document, the
question, how the cell gets on with the document, and chance; of the kinds: smooth (normal), skewed (as a
latency), graded (as nDCG, in few steps), shares (0 or 1). Documents have one question each, or one to six:
then clusters are drawn, and, for comparison, questions as if they were independent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from rag_assay.evals.statistics.bootstrap import intervals
from rag_assay.evals.statistics.clusters import Codes
from rag_assay.evals.statistics.resampling import Floats
from rag_assay.evals.statistics.significance import paired_bootstrap

SEED = 7
STUDIES = 2_000  # of each line about intervals: a share of 95 % is known to 0.5 % (standard error)
FAMILIES = 400  # of each line about families: a share of 5 % is known to 1.1 %
FAMILY_RESAMPLES = 500
CELLS = 20
LAYOUTS = 20  # ways in which questions fall to documents
STEPS = np.array([0.0, 0.387, 0.431, 0.5, 0.631, 1.0])


class Kind(NamedTuple):
    """Values of two cells: each from a normal number, and what it is on the average."""

    name: str
    first: tuple[Callable[[Floats], Floats], float]
    second: tuple[Callable[[Floats], Floats], float]
    binary: bool = False


def _uniform(z: Floats) -> Floats:
    from scipy.special import ndtr

    return np.asarray(ndtr(z))


def _share(p: float) -> tuple[Callable[[Floats], Floats], float]:
    return lambda z: (_uniform(z) < p).astype(np.float64), p


def _smooth(mean: float) -> tuple[Callable[[Floats], Floats], float]:
    return lambda z: mean + 0.2 * z, mean


def _skewed(mean: float) -> tuple[Callable[[Floats], Floats], float]:
    return lambda z: -mean * np.log1p(-_uniform(z)), mean


def _graded(*chances: float) -> tuple[Callable[[Floats], Floats], float]:
    ends = np.cumsum(chances)[:-1]
    return lambda z: STEPS[np.searchsorted(ends, _uniform(z))], float(STEPS @ chances)


KINDS = (
    Kind("smooth", _smooth(0.5), _smooth(0.45)),
    Kind("skewed", _skewed(1.0), _skewed(1.2)),
    Kind("graded", _graded(0.3, 0.05, 0.05, 0.1, 0.15, 0.35), _graded(0.4, 0.05, 0.05, 0.1, 0.1, 0.3)),
    Kind("share 0.6", _share(0.6), _share(0.5), binary=True),
    Kind("share 0.8", _share(0.8), _share(0.7), binary=True),
)


def layout(chance: np.random.Generator, n: int) -> Codes:
    """Deal questions to documents, one to six each."""
    sizes = chance.integers(1, 7, size=n)
    return np.asarray(np.repeat(np.arange(n), sizes)[:n], np.int64)


def normals(chance: np.random.Generator, clusters: Codes, cells: int, studies: int) -> Floats:
    """Draw what values come from: shape (cells, questions, studies), each a standard normal number."""
    documents, n = int(clusters.max()) + 1, len(clusters)
    shared = np.sqrt(0.2) * chance.normal(size=(documents, studies))[clusters]
    hard = np.sqrt(0.2) * chance.normal(size=(n, studies))
    alike = np.sqrt(0.25) * chance.normal(size=(cells, documents, studies))[:, clusters]
    return np.asarray(shared + hard + alike + np.sqrt(0.35) * chance.normal(size=(cells, n, studies)))


def _holds(low: Floats, high: Floats, truth: float) -> float:
    there = np.isfinite(low)
    return float(((low <= truth + 1e-12) & (truth - 1e-12 <= high))[there].mean()) if there.any() else np.nan


def held(
    kind: Kind, chance: np.random.Generator, clusters: Codes, drawn: Codes | None, studies: int
) -> Floats:
    """Return how often intervals of a mean and of a difference hold the truth, and how often there is one."""
    one, other = normals(chance, clusters, 2, studies)
    values, others = kind.first[0](one), kind.second[0](other)
    means = np.array([(i.low, i.high) for i in intervals(values, SEED, drawn) if i], np.float64).T
    found = paired_bootstrap(others - values, SEED, 1_000, drawn, binary=kind.binary)
    truth = kind.second[1] - kind.first[1]
    return np.array(
        [
            _holds(means[0], means[1], kind.first[1]),
            _holds(found.low, found.high, truth),
            np.isfinite(found.low).mean(),
        ]
    )


def interval_table() -> None:
    """Print a line a kind, number of questions and way of drawing."""
    print("\n| values | questions | documents | drawn | mean | difference | has an interval |")
    print("|---|---|---|---|---|---|---|")
    for kind in KINDS:
        chance = np.random.default_rng(SEED)
        for n in (20, 60, 300):
            found = held(kind, chance, np.arange(n), None, STUDIES)
            _line(kind.name, n, n, "questions", found)
        for n in (60, 120, 300):
            layouts = [layout(chance, n) for _ in range(LAYOUTS)]
            documents = float(np.mean([int(one.max()) + 1 for one in layouts]))
            for name in ("clusters", "questions"):
                parts = [
                    held(kind, chance, one, one if name == "clusters" else None, STUDIES // LAYOUTS)
                    for one in layouts
                ]
                _line(kind.name, n, documents, name, np.nanmean(parts, axis=0))


def _line(kind: str, n: int, documents: float, drawn: str, shares: Floats) -> None:
    cells = " | ".join(f"{share:.1%}" for share in shares)
    print(f"| {kind} | {n} | {documents:.0f} | {drawn} | {cells} |", flush=True)


if __name__ == "__main__":
    interval_table()
