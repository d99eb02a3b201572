"""How many cells a budget lets stay in a race."""

from __future__ import annotations

import math
from collections.abc import Sequence


def stays(costs: Sequence[float], blocks: Sequence[int], spent: float, cap: float) -> int:
    """Return how many cells may stay after a rung, so that halving after every later one keeps to a cap.

    Cells are dropped for the budget's sake as late as can be: with a cells left, the rungs that remain ask a,
    a / 2, a / 4 … cells. One cell always stays, whatever it costs.

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
    for count in range(len(costs), 1, -1):
        if spent + _ahead(costs, blocks, count) <= cap:
            return count
    return 1


def _ahead(costs: Sequence[float], blocks: Sequence[int], count: int) -> float:
    total = 0.0
    for questions in blocks:
        total += questions * sum(costs[:count])
        count = math.ceil(count / 2)
    return total
