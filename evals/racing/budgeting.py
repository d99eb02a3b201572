"""How many cells a budget lets stay in a race."""

from __future__ import annotations

import math
from collections.abc import Sequence


def stays(costs: Sequence[float], blocks: Sequence[int], spent: float, cap: float) -> int:
    """Return how many cells may stay after a rung, so that halving after every later one keeps to a cap.

    As late as can be is dropped what is dropped for the budget's sake alone: with a cells left, the rungs
    that remain ask a, a / 2, a / 4 … cells. At most half are dropped at once, but before the last rung as
    many as the cap demands; one cell always stays.

    Args:
        costs: of a question to each cell, the best cell first.
        blocks: questions of each rung that remains.
        spent: by what was asked so far.
        cap: of all together.

    >>> stays([1.0] * 8, [10, 20], spent=80, cap=200)  # 6 x 10 + 3 x 20 = 120
    6
    >>> stays([1.0] * 8, [20], spent=80, cap=120)
    2
    """
    least = 1 if len(blocks) <= 1 else math.ceil(len(costs) / 2)
    for count in range(len(costs), least, -1):
        if spent + _ahead(costs, blocks, count) <= cap:
            return count
    return max(least, 1)


def _ahead(costs: Sequence[float], blocks: Sequence[int], count: int) -> float:
    total = 0.0
    for questions in blocks:
        total += questions * sum(costs[:count])
        count = math.ceil(count / 2)
    return total
