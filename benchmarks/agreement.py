"""How often the interval of Krippendorff's alpha holds the alpha that simulated people have.

    python -m benchmarks.agreement

Items have a true value; each person gives it, or with a given chance a value drawn without a look. What alpha
comes to among very many items is the truth. Where items belong to questions, an item has its question's value
six times out of ten.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from rag_assay.evals.statistics.clusters import Codes
from rag_assay.evals.statistics.raters import Level, krippendorffs_alpha
from rag_assay.evals.statistics.resampling import Floats

RUNS = 1_000  # a share of 95 % is known to 0.7 % (standard error)
MANY = 200_000


class Panel(NamedTuple):
    """People who score items.

    noise: how often somebody does not look; seen: how often somebody scores an item at all
    chances: of the values, in the order of the scale
    questions: that the items are about; 0: each item is about one of its own
    """

    items: int
    people: int
    scale: tuple[float, ...]
    chances: tuple[float, ...]
    level: Level
    noise: float = 0.3
    seen: float = 1.0
    questions: int = 0


POINTS, OF_POINTS = (0.0, 3.0, 5.0), (0.62, 0.04, 0.34)  # as often as in the sheet of the sports news project
GRADES, OF_GRADES = (1.0, 2.0, 3.0, 4.0, 5.0), (0.1, 0.2, 0.3, 0.25, 0.15)
PANELS = (
    Panel(20, 2, POINTS, OF_POINTS, "interval"),
    Panel(50, 2, POINTS, OF_POINTS, "interval"),
    Panel(150, 2, POINTS, OF_POINTS, "interval"),
    Panel(150, 2, POINTS, OF_POINTS, "interval", noise=0.6),
    Panel(50, 3, GRADES, OF_GRADES, "ordinal"),
    Panel(100, 5, GRADES, OF_GRADES, "ordinal", seen=0.5),
    Panel(50, 2, (0.0, 1.0), (0.8, 0.2), "nominal"),
    Panel(200, 2, (0.0, 1.0), (0.95, 0.05), "nominal", noise=0.1),
    Panel(150, 2, POINTS, OF_POINTS, "interval", questions=30),
    Panel(220, 2, POINTS, OF_POINTS, "interval", questions=11),
    Panel(3_000, 3, GRADES, OF_GRADES, "ordinal", questions=300),
)


def drawn(panel: Panel, chance: np.random.Generator) -> tuple[Codes, Floats, Codes | None]:
    """Return items and values of scores, and the clusters of the items."""

    def values(shape: tuple[int, ...]) -> Codes:
        return np.asarray(chance.choice(len(panel.scale), size=shape, p=panel.chances), np.int64)

    truth, clusters = values((panel.items,)), None
    if panel.questions:
        clusters = np.arange(panel.items) % panel.questions
        of_question = values((panel.questions,))[clusters]
        truth = np.where(chance.random(panel.items) < 0.6, of_question, truth)
    shape = (panel.items, panel.people)
    given = np.where(chance.random(shape) < panel.noise, values(shape), truth[:, None])
    items, people = np.nonzero(chance.random(shape) < panel.seen)
    return items, np.array(panel.scale)[given[items, people]], clusters


def main() -> None:
    """Print a line a panel."""
    print(
        f"{'items':>6} {'people':>6} {'values':>6} {'level':>9} {'noise':>6} {'questions':>9} | "
        f"{'alpha':>6} {'covers':>7} {'below':>6} {'above':>6} {'width':>6} {'none':>6} {'ms':>6}"
    )
    for panel in PANELS:
        items, values, _ = drawn(
            panel._replace(items=MANY, questions=panel.questions and MANY * panel.questions // panel.items),
            np.random.default_rng(0),
        )
        truth = krippendorffs_alpha(items, values, panel.level, 0, np.zeros(MANY, np.int64)).value
        assert truth is not None  # noqa: S101 -- there are very many
        low, high, began = [], [], time.perf_counter()
        for run in range(RUNS):
            items, values, clusters = drawn(panel, np.random.default_rng(run + 1))
            found = krippendorffs_alpha(items, values, panel.level, run, clusters)
            if found.low is not None and found.high is not None:
                low.append(found.low)
                high.append(found.high)
        took = (time.perf_counter() - began) / RUNS * 1_000
        lows, highs = np.array(low), np.array(high)
        under, over = float((highs < truth).mean()), float((lows > truth).mean())
        print(
            f"{panel.items:6} {panel.people:6} {len(panel.scale):6} {panel.level:>9} {panel.noise:6.1f} "
            f"{panel.questions or '-':>9} | {truth:6.3f} {1 - under - over:7.1%} {under:6.1%} {over:6.1%} "
            f"{float((highs - lows).mean()):6.3f} {1 - len(low) / RUNS:6.1%} {took:6.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
