"""A whole race over values that are known: what a run does rung by rung, for benchmarks and tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rag_assay.evals.statistics.question_clusters import ALONE, Clustering
from rag_assay.evals.successive_halving.budgets import stays
from rag_assay.evals.successive_halving.elimination import EliminatedCell, EliminationRules, Values, look


class Raced(NamedTuple):
    """How a race ended.

    left: cells that were asked all questions; dropped: rung, from 1 -> the cells that it dropped
    evaluations: how many times a cell was asked a question
    """

    left: list[str]
    dropped: dict[int, list[EliminatedCell]]
    evaluations: int


def race(
    cells: Sequence[str],
    values: Values,
    blocks: Sequence[Sequence[str]],
    rules: EliminationRules,
    clusters: Clustering = ALONE,
    *,
    cap: int | None = None,
) -> Raced:
    """Race cells over blocks of questions; after each but the last some may be dropped.

    Args:
        cells: that race.
        values: of all cells and questions.
        blocks: of `rungs`.
        rules: `keep` of them is not read: the cap decides.
        cap: of evaluations; None: no such bound.
    """
    left, dropped, spent = list(cells), dict[int, list[EliminatedCell]](), 0
    asked: set[str] = set()
    for rung, block in enumerate(blocks, 1):
        asked |= set(block)
        spent += len(left) * len(block)
        if rung == len(blocks) or len(left) < 2:
            continue
        known = {cell: {q: v for q, v in values[cell].items() if q in asked} for cell in left}
        ahead = [len(one) for one in blocks[rung:]]
        found = look(left, known, rules, clusters)
        if cap is not None:
            keep = stays([1.0] * len(found.left), ahead, spent, cap)
            found = look(left, known, rules._replace(keep=keep), clusters)
        dropped[rung] = found.dropped
        left = found.left
    return Raced(left, dropped, spent)
