"""How often intervals hold the truth, how often equal cells are told apart, and how long it takes.

    python -m benchmarks.statistics [speed] [intervals] [families]

Studies are simulated whose truth is known. A cell's value of a question hangs on the document, the question,
how the cell gets on with the document, and chance; of the kinds: smooth (normal), skewed (as a latency),
graded (as nDCG, in few steps), shares (0 or 1). Documents have one question each, or one to six: then the
clusters are drawn, and beside it stands what comes of it if questions are taken for independent.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from evals.statistics.first import first_shares

from evals.statistics.bootstrap import intervals
from evals.statistics.clusters import Codes, effective
from evals.statistics.contrasts import contrasts
from evals.statistics.resampling import Floats
from evals.statistics.significance import ALPHA, holm, paired_bootstrap

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


def erred(values: Floats, drawn: Codes | None) -> list[bool]:
    """Return whether any of equal cells is told apart from the leader, and by Holm's correction alone."""
    leader = int(values.mean(axis=0).argmax())
    others = np.delete(values, leader, axis=1) - values[:, [leader]]
    found = contrasts(others, SEED, drawn, resamples=FAMILY_RESAMPLES)
    fixed = holm(paired_bootstrap(values[:, 1:] - values[:, :1], SEED, FAMILY_RESAMPLES, drawn).p)
    return [bool((p < ALPHA).any()) for p in (found.p, found.p_bootstrap, fixed)]


def family_table() -> None:
    """Print how often one of twenty equal cells is told apart, by number of questions and way of drawing."""
    print("\n| values | questions | documents | drawn | both tests | Holm alone | from a fixed cell |")
    print("|---|---|---|---|---|---|---|")
    for kind in (KINDS[0], KINDS[1], KINDS[2], KINDS[4]):
        for n, clustered in ((20, False), (60, False), (300, False), (100, True), (300, True)):
            chance = np.random.default_rng(SEED)
            families: dict[str, list[list[bool]]] = {}
            sizes = []
            for _ in range(FAMILIES):
                clusters = layout(chance, n) if clustered else np.arange(n)
                sizes.append(effective(clusters))
                values = kind.first[0](normals(chance, clusters, CELLS, 1)[..., 0].T)
                families.setdefault("clusters" if clustered else "questions", []).append(
                    erred(values, clusters if clustered else None)
                )
            for drawn, found in families.items():
                _line(kind.name, n, float(np.mean(sizes)), drawn, np.mean(found, axis=0))


def speed() -> None:
    """Print what 96 cells on 300 questions take."""
    chance = np.random.default_rng(SEED)
    clusters = layout(chance, 300)
    values = _smooth(0.5)[0](normals(chance, clusters, 96, 1)[..., 0].T)
    leader = int(values.mean(axis=0).argmax())
    others = np.delete(values, leader, axis=1) - values[:, [leader]]
    contrasts(others[:, :2], SEED, resamples=10)  # imports
    for name, drawn in (("questions", None), ("clusters", clusters)):
        for what, work in (
            ("both tests, 95 cells against the best", lambda: contrasts(others, SEED, drawn)),  # noqa: B023
            ("chance of being the best", lambda: first_shares(values, SEED, clusters=drawn)),  # noqa: B023
        ):
            clock, processor = time.perf_counter(), time.process_time()
            work()
            clock, processor = time.perf_counter() - clock, time.process_time() - processor
            drawing = f"10,000 resamples of 300 questions by {name}"
            print(f"{what}, {drawing}: {clock:.2f} s, processor {processor:.2f} s")


def main(parts: Sequence[str]) -> None:
    """Print the parts that are named, or all."""
    for name, run in (("speed", speed), ("intervals", interval_table), ("families", family_table)):
        if not parts or name in parts:
            run()


if __name__ == "__main__":
    main(sys.argv[1:])
