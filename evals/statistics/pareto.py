"""Pareto fronts: what is not beaten in one thing without being worse in another."""

from __future__ import annotations

from collections.abc import Sequence


def front(costs: Sequence[float], values: Sequence[float]) -> list[int]:
    """Return which points no other beats: at most the cost, at least the value, and one of them better.

    In order of rising cost, and so of rising value. Of equal points the first stands for all.

    >>> front([1.0, 2.0, 2.0, 3.0], [0.5, 0.4, 0.7, 0.7])
    [0, 2]
    """
    found: list[int] = []
    for at in sorted(range(len(costs)), key=lambda at: (costs[at], -values[at], at)):
        if not found or values[at] > values[found[-1]]:
            found.append(at)
    return found
