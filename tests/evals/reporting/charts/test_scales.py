from __future__ import annotations

import math

import pytest

from rag_assay.evals.reporting.charts.marks import Scale, cost_scale, domain, finite, rounded, ticks


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (0.412, 0.433), (120.0, 98000.0), (-0.7, 0.2)])
def test_ticks_are_round_few_and_inside(low: float, high: float) -> None:
    found = rounded(low, high, 8)
    assert 3 <= len(found) <= 9
    assert low - 1e-9 <= found[0]
    assert found[-1] <= high + 1e-9


@pytest.mark.parametrize(
    "values",
    [[1.0], [0.0], [-0.5, -0.1], [0.3, 0.3], [None, math.nan, 0.2, math.inf], [], [1e-9, 1e9]],
)
def test_every_range_can_be_drawn(values: list[float | None]) -> None:
    low, high = domain(values)
    assert low < high
    scale = Scale(low, high)
    assert all(0 <= tick.at <= 100 for tick in ticks(scale, 5))
    assert all(0 <= scale.at(one) <= 100 for one in finite(values))


def test_costs_far_apart_are_drawn_by_their_ratios() -> None:
    scale = cost_scale([0.002, 0.02, 2.0])
    assert scale.logarithmic
    assert scale.at(0.02) - scale.at(0.002) == pytest.approx((scale.at(2.0) - scale.at(0.02)) / 2, abs=0.02)
    assert [tick.label for tick in ticks(scale, 4, "s")][:2] == ["0.01 s", "0.1 s"]
    assert not cost_scale([0.0, 1.0, 1000.0]).logarithmic  # 0 has no logarithm
