"""Two axes together: means of every pair of levels as heat maps, each with its test in words."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rag_assay.evals.reporting import limits
from rag_assay.evals.reporting.charts.heat import HeatRow, HeatSquare, HeatTable, heat
from rag_assay.evals.reporting.display import interval, number, several
from rag_assay.evals.reporting.effect_words import pair_words
from rag_assay.evals.reporting.effects import AxisPair, Effects
from rag_assay.evals.reporting.figures.captions import IN_ROWS, left_out
from rag_assay.evals.reporting.matrix import natural
from rag_assay.evals.statistics.significance import ALPHA


def pair_figures(effects: Effects) -> tuple[HeatTable, ...]:
    """Return a heat map of each pair of axes, first those of which one depends on the other."""
    ordered = sorted(effects.pairs, key=lambda pair: not pair.p < ALPHA)
    return tuple(_figure(pair) for pair in ordered)


def _figure(pair: AxisPair) -> HeatTable:
    one, other = pair.axes
    rows_of, columns_of = (_in_order(names) for names in pair.levels)
    means = pair.found.means
    shown = means[np.ix_(rows_of, columns_of)]
    ends = (float(shown.min()), float(shown.max()))

    def square(row: int, column: int) -> HeatSquare:
        low, high = float(pair.found.low[row, column]), float(pair.found.high[row, column])
        level = heat(float(means[row, column]), *ends, higher_is_better=pair.metric.higher_is_better)
        small = "" if math.isnan(low) else interval(low, high, pair.metric.unit)
        return HeatSquare(
            written(means[row, column]), level, small=small, bold=row == pair.found.best[column].level
        )

    def written(value: float) -> str:
        return number(float(value), pair.metric.unit)

    rows = tuple(
        HeatRow(
            pair.levels[0][row],
            tuple(square(row, column) for column in columns_of),
            HeatSquare(written(means[row].mean())),
        )
        for row in rows_of
    )
    foot = tuple(HeatSquare(written(means[:, column].mean())) for column in columns_of)
    further = sum(len(names) for names in pair.levels) - len(rows_of) - len(columns_of)
    return HeatTable(
        f"chart-pair-{one}-{other}",
        f"{one.capitalize()} and {other}: {pair.metric.title}",
        f"{pair_words(pair)} Means over {several(pair.found.n, 'question')} in equal contexts with their "
        f"intervals; the best {one} with each {other} is bold.",
        one.capitalize(),
        tuple(pair.levels[1][column] for column in columns_of),
        rows,
        (HeatRow("Mean", foot),),
        "Mean",
        left_out(IN_ROWS, level=further),
    )


def _in_order(names: Sequence[str]) -> list[int]:
    return sorted(range(len(names)), key=lambda at: natural(names[at]))[: limits.PAIR_LEVELS]
