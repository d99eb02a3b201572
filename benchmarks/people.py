"""How often estimates from few human ratings and many judgements hold the truth, and what they save.

    python -m benchmarks.people FOLDER [--runs N]

FOLDER holds `scifact` (claims_labelled.jsonl, corpus.jsonl.gz). The judgements are real ones: how similar
each claim is to the nearest sentence of an abstract that it cites. People are simulated, so that the truth is
known: what they think of an item hangs on the judgement, on the question, and on chance; one of three is
lenient, one harsh; they give 5, 3 or 0 points (`points`), nearly always 5 (`mostly 5`), or 1 or 0 (`met or
not`). Each run draws 300 items with replacement, as a study draws questions: each by itself, or one to four
of a question, which share what makes it hard and, often, the judgement. Of these some are scored: all as
likely (`random`), or half of them the likelier, the nearer the judgement is to the middle (`disputed`).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.entailment import MINILM, cosines, pairs_of
from rag_assay.assets.embedding.cached_embedder import CachedEmbedder
from rag_assay.evals.statistics.clusters import Codes
from rag_assay.evals.statistics.prediction_powered import Items, Mean, estimate_mean
from rag_assay.evals.statistics.resampling import Floats
from rag_assay.warehouse.paths import Home, home

SEED, RUNS, ITEMS = 7, 1_000, 300
LABELS = (20, 50, 100, 200)
NOISE = 0.8  # standard deviation of what people think beside the judgement, which counts as much
BIAS = np.array([-0.2, 0.0, 0.2])  # of a harsh one, one between, a lenient one
DRAWN = 400_000  # items that the truth is the mean of


class People(NamedTuple):
    """How people score: from what they think of an item to what they give."""

    name: str
    bounds: tuple[float, float]
    given: Callable[[Floats], Floats]


def _steps(*ends: float) -> Callable[[Floats], Floats]:
    return lambda thought: np.array([0.0, 3.0, 5.0])[np.searchsorted(ends, thought)]


PEOPLE = (
    People("points", (0, 5), _steps(-0.6, 0.1)),
    People("mostly 5", (0, 5), _steps(-1.8, -1.5)),
    People("met or not", (0, 1), lambda thought: (thought > -0.3).astype(np.float64)),
)


class Coverage(NamedTuple):
    """What came of the runs of one setting.

    people, combined: share of the intervals that hold the truth
    said: width of the combined interval as a share of that of people alone, on the average
    measured: the same of the errors that were made (root mean squares)
    saved: labels, on the average
    """

    people: float
    combined: float
    said: float
    measured: float
    saved: float


def thought(
    judged: Floats, scale: tuple[float, float], shared: Floats, chance: np.random.Generator
) -> Floats:
    """Return what people think of items, whoever of them it is.

    scale: mean and standard deviation of the judgements; shared: what makes the question hard
    """
    who = BIAS[chance.integers(0, len(BIAS), len(judged))]
    own = np.sqrt(NOISE**2 - 0.3) * chance.normal(size=len(judged))
    return np.asarray((judged - scale[0]) / scale[1] * NOISE + np.sqrt(0.3) * shared + own + who)


def drawn_items(
    judgements: Floats, chance: np.random.Generator, *, clustered: bool
) -> tuple[Floats, Codes | None, Floats]:
    """Draw the items of a study: judgements, clusters, and what makes each one's question hard."""
    judged = chance.choice(judgements, ITEMS)
    if not clustered:
        return judged, None, chance.normal(size=ITEMS)
    codes = np.repeat(np.arange(ITEMS), chance.integers(1, 5, size=ITEMS))[:ITEMS].astype(np.int64)
    alike = chance.choice(judgements, ITEMS)[codes]
    return np.where(chance.random(ITEMS) < 0.4, alike, judged), codes, chance.normal(size=ITEMS)[codes]


def probabilities(judged: Floats, scale: tuple[float, float], n: int, *, disputed: bool) -> Floats:
    """Return with which probability each item is drawn, so that about n are."""
    from scipy.special import ndtri

    if not disputed:
        return np.full(len(judged), n / len(judged))
    off = np.abs(judged - scale[0]) / scale[1]
    wish = np.exp(off / float(ndtri(0.25)))  # an item at a quartile: 1 / e of one in the middle
    likely = n * (0.5 / len(judged) + 0.5 * wish / wish.sum())
    while likely.sum() < n - 1e-6 or likely.max() > 1:  # what is certain leaves more for the others
        likely = np.minimum(likely, 1.0)
        sure = likely >= 1
        likely[~sure] *= (n - sure.sum()) / likely[~sure].sum()
    return np.asarray(likely)


def coverage(
    judgements: Floats, people: People, n: int, runs: int, *, clustered: bool, disputed: bool
) -> Coverage:
    """Return how often the intervals of so many runs hold the truth, and how wide they are."""
    chance = np.random.default_rng([SEED, n, clustered, disputed])
    scale = float(judgements.mean()), float(judgements.std())
    many = chance.choice(judgements, DRAWN)
    truth = float(people.given(thought(many, scale, chance.normal(size=DRAWN), chance)).mean())
    rows = []
    for _ in range(runs):
        judged, clusters, shared = drawn_items(judgements, chance, clustered=clustered)
        scores = people.given(thought(judged, scale, shared, chance))
        drawn = probabilities(judged, scale, n, disputed=disputed)
        if disputed:
            scored = chance.random(ITEMS) < drawn
        else:
            scored = np.isin(np.arange(ITEMS), chance.choice(ITEMS, n, replace=False))
        found = estimate_mean(Items(np.where(scored, scores, np.nan), judged, people.bounds, drawn, clusters))
        if found.people.low is not None and found.combined.low is not None:
            one, other = (_row(mean, truth) for mean in (found.people, found.combined))
            rows.append([*one, *other, found.saved])
    table = np.array(rows)
    held_one, wide_one, off_one, held, wide, off, saved = table.T
    measured = float(np.sqrt((off**2).mean() / (off_one**2).mean()))
    return Coverage(
        float(held_one.mean()),
        float(held.mean()),
        float(wide.mean() / wide_one.mean()),
        measured,
        float(saved.mean()),
    )


def _row(mean: Mean, truth: float) -> tuple[float, float, float]:
    low, high = mean.low or 0.0, mean.high or 0.0
    held = low - 1e-9 <= truth <= high + 1e-9
    return float(held), high - low, (mean.value or 0.0) - truth


def main() -> None:
    """Print a line a setting."""
    read = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    read.add_argument("folder", type=Path)
    read.add_argument("--runs", type=int, default=RUNS)
    asked = read.parse_args()
    pairs = pairs_of(asked.folder / "scifact")
    embedder = CachedEmbedder(MINILM, Home(home().root / "bench" / "entailment")).embedder
    values = np.array(cosines(pairs, embedder, best_sentence=True).values, np.float64)
    print(f"{len(values)} judgements; {asked.runs} runs of {ITEMS} items a line\n")
    print("| people | items | drawn | labels | people alone | combined | width said | measured | saved |")
    print("|---|---|---|---|---|---|---|---|---|")
    for people, clustered, disputed, n in product(PEOPLE, (False, True), (False, True), LABELS):
        got = coverage(values, people, n, asked.runs, clustered=clustered, disputed=disputed)
        items, drawn = "of questions" if clustered else "alone", "disputed" if disputed else "random"
        cells = f"{got.people:.1%} | {got.combined:.1%} | {got.said:.3f} | {got.measured:.3f}"
        print(f"| {people.name} | {items} | {drawn} | {n} | {cells} | {got.saved:.0f} |", flush=True)


if __name__ == "__main__":
    main()
