"""How often the verdict is wrong on simulated studies whose truth is known, and what it costs.

    python -m benchmarks.verdict [false] [margin] [decision] [chances] [intervals] [speed] [--studies N]

A cell's value of a question depends on the document, the question, how the cell gets on with the document,
and noise. Values are graded (in steps, as nDCG), saturated (90 % ones), binary, or unbounded (log-normal, as
a latency). Claims are about further documents: a study draws its documents, too.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from rag_assay.evals.metrics.costs import RunningCost
from rag_assay.evals.statistics.bootstrap import UNIT, intervals
from rag_assay.evals.statistics.clusters import Codes
from rag_assay.evals.statistics.comparison import UNCOMPARED, posterior
from rag_assay.evals.statistics.question_clusters import Clustering
from rag_assay.evals.statistics.resampling import Floats
from rag_assay.evals.statistics.significance import ALPHA, contrasts, step_down
from rag_assay.evals.statistics.verdict import VerdictInputs, decide

SEED = 20_261
STUDIES = 600
MARGIN = 0.02
HARD, NEAR = (0.2, 0.2, 0.25, 0.35), (0.3, 0.5, 0.07, 0.13)
"""Cells that get on with documents each in its way, as retrievers do; and near relatives."""
STEPS = np.array([0.0, 0.387, 0.431, 0.5, 0.631, 1.0])
SHARES = {"graded": (0.3, 0.05, 0.05, 0.1, 0.15, 0.35), "saturated": (0.03, 0.01, 0.01, 0.02, 0.03, 0.90)}
KINDS = ("graded", "saturated", "binary", "unbounded")
_GRID = np.linspace(-4, 4, 2001)


class Design(NamedTuple):
    """A simulated study: documents, questions of each, cells, and what is odd about it.

    noise: variances of document, question, cell by document, and the rest
    sizes: documents have one to 2m - 1 questions each
    missing: share of the values that are missing
    replicates: values are means of so many
    """

    documents: int
    each: int
    cells: int = 20
    kind: str = "graded"
    noise: tuple[float, float, float, float] = HARD
    sizes: bool = False
    missing: float = 0.0
    replicates: int = 1

    @property
    def name(self) -> str:
        """Name it by what a reader of the table needs."""
        more = [f"{self.cells} cells"] if self.cells != 20 else []
        more += ["unequal sizes"] if self.sizes else []
        more += [f"{self.missing:.0%} missing"] if self.missing else []
        more += [f"{self.replicates} replicates"] if self.replicates > 1 else []
        return ", ".join([f"{self.documents} x {self.each}", *more])


def expected(kind: str, shift: Floats) -> Floats:
    """Return the true mean of a cell whose normal number is shifted."""
    if kind == "unbounded":
        return np.asarray(np.exp(shift + 0.5))
    if kind == "binary":
        return np.asarray(ndtr(ndtri(0.8) + shift))
    ends = ndtri(np.cumsum(SHARES[kind])[:-1])
    below = ndtr(ends - np.asarray(shift)[..., None])
    edges = np.concatenate([0 * below[..., :1], below, 1 + 0 * below[..., :1]], axis=-1)
    return np.asarray(np.diff(edges, axis=-1) @ STEPS)


def shift_for(kind: str, means: Floats) -> Floats:
    """Return the shifts that give these true means."""
    return np.asarray(np.interp(means, expected(kind, _GRID), _GRID))


def simulate(chance: np.random.Generator, design: Design, shift: Floats) -> tuple[Floats, Codes]:
    """Draw the values of a study: shape (questions, cells), and each question's document."""
    d, q, a, r = map(np.sqrt, design.noise)
    if design.sizes:
        counts = chance.integers(1, 2 * design.each, size=design.documents)
    else:
        counts = np.full(design.documents, design.each)
    of = np.repeat(np.arange(design.documents), counts)
    n, k = len(of), design.cells
    shared = d * chance.standard_normal((design.documents, 1))[of] + q * chance.standard_normal((n, 1))
    shared = shared + a * chance.standard_normal((design.documents, k))[of] + shift
    drawn = [
        _valued(design.kind, shared + r * chance.standard_normal((n, k))) for _ in range(design.replicates)
    ]
    values = np.mean(drawn, axis=0)
    if design.missing:
        values = np.where(chance.random(values.shape) < design.missing, np.nan, values)
    return values, of


def _valued(kind: str, z: Floats) -> Floats:
    if kind == "unbounded":
        return np.exp(z)
    if kind == "binary":
        return (z > -ndtri(0.8)).astype(np.float64)
    return STEPS[np.searchsorted(ndtri(np.cumsum(SHARES[kind])[:-1]), z)]


DESIGNS = (
    *(Design(*one) for one in ((8, 8), (6, 10), (24, 3), (100, 3), (300, 1))),
    Design(8, 8, cells=3),
    Design(24, 3, cells=100),
    Design(24, 4, sizes=True),
    Design(24, 3, missing=0.02),
    Design(24, 3, replicates=3),
)


def false_claims(studies: int) -> None:
    """Print in how many studies of equal cells any cell is called significantly worse, in percent."""
    studies *= 3
    print(f"\nFalse claims of a difference, % of {studies} studies of equal cells (at most 6.5 is wanted)\n")
    print("| documents x questions | " + " | ".join(KINDS) + " |\n|---|" + "---:|" * len(KINDS))
    for design in DESIGNS:
        shares = [_erred(design._replace(kind=kind), studies) for kind in KINDS]
        print(f"| {design.name} | " + " | ".join(f"{share:.1f}" for share in shares) + " |", flush=True)


def _erred(design: Design, studies: int) -> float:
    chance, wrong = np.random.default_rng(SEED), 0
    for seed in range(studies):
        values, of = simulate(chance, design, np.zeros(design.cells))
        wrong += bool((step_down(_against_leader(values)[0], seed, 1_000, of).p < ALPHA).any())
    return 100 * wrong / studies


def margin_claims(studies: int) -> None:
    """Print in how many studies any cell that loses just the margin is called within it, in percent.

    The rest of the cells are as good as the leader: of those, how many are shown to be within it.
    """
    print(
        f"\nFalse claims of being within {MARGIN}, % of {studies} studies (at most 6.5 is wanted); shown, %\n"
    )
    print("| documents x questions | noise | one is best | half are |\n|---|---:|---:|---:|")
    for documents, each, cells in ((8, 8, 3), (8, 8, 20), (28, 3, 20), (100, 3, 20)):
        for noise in (0.005, 0.01, 0.02):
            shares = []
            for best in (1, cells // 2):
                means = np.where(np.arange(cells) < best, 0.0, -MARGIN - 1e-4)
                wrong, shown = _called_within(Design(documents, each, cells), means, noise, studies)
                shares.append(f"{wrong:.1f}" if best == 1 else f"{wrong:.1f} ({shown:.0f} shown)")
            print(
                f"| {documents} x {each}, {cells} cells | {noise} | " + " | ".join(shares) + " |", flush=True
            )


def _called_within(design: Design, means: Floats, noise: float, studies: int) -> tuple[float, float]:
    chance, wrong, shown, near = np.random.default_rng(SEED + 4), 0, 0, 0
    of = np.repeat(np.arange(design.documents), design.each)
    for seed in range(studies):
        apart = chance.standard_normal((design.documents, design.cells))[of]
        values = means + noise * (apart + 0.5 * chance.standard_normal((len(of), design.cells)))
        against, leader = _against_leader(values)
        within = contrasts(against, seed, of, resamples=1_000, margin=MARGIN).within
        good = np.abs(np.delete(means, leader) - means[leader]) < MARGIN
        wrong += bool((within & ~good).any())
        shown, near = shown + int((within & good).sum()), near + int(good.sum())
    return 100 * wrong / studies, 100 * shown / max(near, 1)


def _against_leader(values: Floats) -> tuple[Floats, int]:
    leader = int(np.nanmean(values, axis=0).argmax())
    return np.delete(values, leader, axis=1) - values[:, [leader]], leader


class _Metric(NamedTuple):
    name: str = "value"
    title: str = "Value"
    kind: str = "retrieval"
    unit: str = ""
    higher_is_better: bool = True
    bounds: tuple[float | None, float | None] = (0.0, 1.0)


def decided(values: Floats, of: Codes, costs: Floats) -> tuple[int, int, int]:
    """Return the leader, the simplest of the tied, and the cell that the verdict recommends."""
    against, leader = _against_leader(values)
    p = np.insert(step_down(against, SEED, 1_000, of).p, leader, 1.0)
    found = posterior(values, SEED, MARGIN, 1.0, of)
    means = np.nanmean(values, axis=0)
    order = np.argsort(np.argsort(-means, kind="stable"))
    rows = [
        {
            **UNCOMPARED,
            **dict.fromkeys(("chunking", "embedder", "generator", "low", "high", "answered")),
            "subset": "all",
            "cell": str(at),
            "retriever": str(at),
            "metric": "value",
            "rank": int(order[at]) + 1,
            "value": means[at],
            "n": len(values),
            "coverage": 1.0,
            "clusters": int(of.max()) + 1,
            "leader": str(leader),
            "tied": bool(p[at] >= ALPHA),
            "p_best": found.p_best[at],
            "expected_loss": found.expected_loss[at],
            "p_loss": found.p_loss[at],
            "bound": found.bound[at],
        }
        for at in range(values.shape[1])
    ]
    priced = {str(at): RunningCost(float(cost), 1.0) for at, cost in enumerate(costs)}
    verdict = decide(
        "s", rows, [_Metric()], VerdictInputs({}, {}, priced, Clustering("documents", {}), "cost", MARGIN)
    )
    assert verdict.recommended is not None  # noqa: S101 -- every cell has a rank
    tied = np.flatnonzero(p >= ALPHA)
    return leader, int(tied[costs[tied].argmin()]), int(verdict.recommended.cell)


def decisions(studies: int) -> None:
    """Print regret and cost (1 to 3) of three rules, by design and spread of the true means."""
    print(
        f"\nRegret (% worse than the best by more than {MARGIN}) at mean cost, {studies} studies, 12 cells\n"
    )
    print("| design, spread | leader | simplest of the tied | verdict |\n|---|---|---|---|")
    for cells, name, noise in (
        (6, "near relatives", NEAR),
        (20, "near relatives", NEAR),
        (20, "unlike", HARD),
    ):
        for documents, each in ((8, 8), (28, 3), (100, 3)):
            for spread in (0.0, 0.02, 0.05, 0.1):
                lines = _regrets(Design(documents, each, cells, noise=noise), spread, studies)
                at = f"{documents} x {each}, {cells} cells, {name}, {spread}"
                print(f"| {at} | " + " | ".join(lines) + " |", flush=True)


def _regrets(design: Design, spread: float, studies: int) -> list[str]:
    chance, found = np.random.default_rng(SEED + 1), []
    for _ in range(studies):
        truth = np.clip(0.55 + spread * chance.standard_normal(design.cells), 0.1, 0.9)
        costs = chance.permutation(np.linspace(1, 3, design.cells))
        values, of = simulate(chance, design, shift_for(design.kind, truth))
        picks = decided(values, of, costs)
        found.append([(truth.max() - truth[at], costs[at]) for at in picks])
    regret, cost = np.moveaxis(np.array(found), 2, 0)
    means, bad, costs = regret.mean(axis=0), 100 * (regret > MARGIN).mean(axis=0), cost.mean(axis=0)
    return [f"{means[at]:.3f} ({bad[at]:.0f}) at {costs[at]:.1f}" for at in range(3)]


def chances(studies: int) -> None:
    """Print how often the cell with the largest chance of being best is the best, by that chance."""
    bands = ((0.2, 0.4), (0.4, 0.6), (0.6, 0.7), (0.7, 0.8), (0.8, 0.9), (0.9, 1.01))
    print(f"\nOf cells said to be best with this chance, % that are ({studies} studies, 12 cells)\n")
    print(
        "| design | "
        + " | ".join(f"{a:.0%}-{min(b, 1):.0%}" for a, b in bands)
        + " |\n|---|"
        + "---:|" * len(bands)
    )
    for design in (
        *(Design(*one, 12) for one in ((8, 8), (28, 3), (100, 3))),
        Design(28, 3, 12, "saturated"),
        Design(28, 4, 12, sizes=True),
        Design(28, 3, 12, missing=0.02),
        Design(28, 3, 12, replicates=3),
    ):
        said, right, low = _calibrated(design, studies)
        shares = []
        for a, b in bands:
            inside = (said >= a) & (said < b)
            shares.append(f"{100 * right[inside].mean():.0f} (n {inside.sum()})" if inside.sum() > 9 else "-")
        kind = "" if design.kind == "graded" else f", {design.kind}"
        print(
            f"| {design.name}{kind} | " + " | ".join(shares) + f" | bounds of all cells hold in {low:.1f} %",
            flush=True,
        )


def _calibrated(design: Design, studies: int) -> tuple[Floats, Floats, float]:
    chance, said, right, held = np.random.default_rng(SEED + 2), [], [], 0
    for _ in range(studies):
        spread = abs(0.05 * chance.standard_cauchy())
        centre = 0.55 if design.kind == "graded" else 0.9
        truth = np.clip(centre + min(spread, 0.3) * chance.standard_normal(design.cells), 0.1, 0.97)
        values, of = simulate(chance, design, shift_for(design.kind, truth))
        found = posterior(values, SEED, MARGIN, 1.0, of)
        at = int(found.p_best.argmax())
        said.append(found.p_best[at])
        right.append(truth[at] >= truth.max() - 1e-9)
        others = np.array([np.delete(truth, one).max() for one in range(design.cells)])
        held += bool((np.minimum(truth - others, 0.0) >= found.bound - 1e-9).all())
    return np.array(said), np.array(right, np.float64), 100 * held / studies


def interval_coverage(studies: int) -> None:
    """Print how often the interval of one mean holds the truth, and whether any leaves its range."""
    print(f"\nIntervals of a mean: % that hold the truth ({3 * studies} studies); none may leave [0, 1]\n")
    print("| questions | documents | " + " | ".join(KINDS[:3]) + " |\n|---|---|" + "---:|" * 3)
    for documents, each in ((8, 1), (20, 1), (84, 1), (8, 3), (28, 3), (6, 10)):
        shares = []
        for kind in KINDS[:3]:
            chance = np.random.default_rng(SEED + 3)
            design = Design(documents, each, 1, kind)
            truth, held, outside = float(expected(kind, np.zeros(1))[0]), 0, 0
            for _ in range(3 * studies):
                values, of = simulate(chance, design, np.zeros(1))
                (found,) = intervals(values, SEED, None if each == 1 else of, UNIT)
                assert found is not None  # noqa: S101 -- there are values
                assert found.low is not None  # noqa: S101 -- of several clusters
                assert found.high is not None  # noqa: S101
                held += found.low - 1e-9 <= truth <= found.high + 1e-9
                outside += found.low < 0 or found.high > 1
            shares.append(f"{100 * held / (3 * studies):.1f}" + (f" ({outside} outside)" if outside else ""))
        print(f"| {documents * each} | {documents} | " + " | ".join(shares) + " |", flush=True)


def speed(_studies: int) -> None:
    """Print CPU seconds of the comparison and the posterior of one study of 300 questions."""
    print("\n| cells | comparison with the leader s | posterior and bounds s |\n|---|---:|---:|")
    for cells in (20, 100, 1_000):
        values, of = simulate(np.random.default_rng(SEED), Design(100, 3, cells), np.zeros(cells))
        against, _ = _against_leader(values)
        parts: Iterator[Callable[[], object]] = iter(
            (lambda: contrasts(against, SEED, of), lambda: posterior(values, SEED, MARGIN, 1.0, of))  # noqa: B023
        )
        seconds = []
        for part in parts:
            began = time.process_time()
            part()
            seconds.append(f"{time.process_time() - began:.2f}")
        print(f"| {cells} | " + " | ".join(seconds) + " |", flush=True)


PARTS = {
    "false": false_claims,
    "margin": margin_claims,
    "decision": decisions,
    "chances": chances,
    "intervals": interval_coverage,
    "speed": speed,
}


def main(words: list[str]) -> None:
    """Print the tables that are asked for, or all."""
    studies = int(words[words.index("--studies") + 1]) if "--studies" in words else STUDIES
    for name in [word for word in words if word in PARTS] or PARTS:
        PARTS[name](studies)


if __name__ == "__main__":
    main(sys.argv[1:])
