"""Agreement of two sets of questions: by arithmetic, by its bounds, and what has none."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from benchmarks.rank_agreement import agreement, halves, tau_b


def by_hand(one: list[float], other: list[float]) -> float:
    """Tau-b as Kendall writes it: (concordant - discordant) over the root of the pairs untied in each."""
    pairs = list(combinations(range(len(one)), 2))
    signs = [np.sign(one[a] - one[b]) * np.sign(other[a] - other[b]) for a, b in pairs]
    untied = [sum(values[a] != values[b] for a, b in pairs) for values in (one, other)]
    return float(sum(signs) / np.sqrt(untied[0] * untied[1]))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([1, 2, 3, 4], [1, 2, 3, 4]),
        ([1, 2, 3, 4], [4, 3, 2, 1]),
        ([1, 2, 2, 3], [2, 1, 3, 3]),
        ([5, 5, 1], [1, 2, 3]),
    ],
)
def test_tau_is_kendalls(one: list[float], other: list[float]) -> None:
    assert tau_b(np.array(one, float), np.array(other, float)) == pytest.approx(by_hand(one, other))


def test_the_interval_holds_the_value_and_narrows_with_questions() -> None:
    draw = np.random.default_rng(1)
    means = np.linspace(0.3, 0.7, 8)
    few, others, many, more = (draw.random((n, 8)) * 2 + means for n in (12, 12, 600, 600))
    wide, narrow = agreement(few, others, 7, 300), agreement(many, more, 7, 300)
    assert wide.low <= wide.tau <= wide.high
    assert narrow.high - narrow.low < wide.high - wide.low
    assert agreement(few, many, 7, 300) == agreement(few, many, 7, 300)
    assert halves(many, 7, 50) > halves(few, 7, 50)


def test_opposite_orders_and_sets_that_tell_nothing() -> None:
    rising = np.array([[0.1, 0.2, 0.3]] * 5)
    assert agreement(rising, 1 - rising, 7, 50).tau == -1
    assert np.isnan(tau_b(np.ones(3), np.arange(3.0)))


@pytest.mark.parametrize(
    ("one", "other"), [((2, 3), (2, 4)), ((2, 1), (2, 1)), ((0, 3), (2, 3)), ((2, 3), (0, 3))]
)
def test_what_cannot_be_compared(one: tuple[int, int], other: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="same two cells or more"):
        agreement(np.zeros(one), np.zeros(other), 7)
