from __future__ import annotations

import numpy as np
import pytest

from rag_assay.evals.statistics.risk_coverage import RiskCoverage, risk_coverage

SURE = np.array([0.9, 0.8, 0.7, 0.6])


def curve(confidence: list[float], loss: list[float], seed: int = 7) -> RiskCoverage:
    found = risk_coverage(np.array(confidence, float), np.array(loss, float), seed)
    assert found is not None
    return found


def test_perfect_confidence_has_no_excess_and_the_worst_the_most() -> None:
    good, bad = curve([4, 3, 2, 1], [0, 0, 1, 1]), curve([1, 2, 3, 4], [0, 0, 1, 1])
    assert good.excess == 0
    assert good.area == pytest.approx((0 + 0 + 1 / 3 + 1 / 2) / 4)
    assert bad.area == pytest.approx((1 + 1 + 2 / 3 + 1 / 2) / 4)
    assert good.risk[-1] == bad.risk[-1] == 0.5, "all answers together are as wrong in any order"


def test_equal_confidences_are_one_step_whatever_their_order() -> None:
    one, other = curve([2, 1, 1, 1], [0, 1, 0, 0]), curve([2, 1, 1, 1], [0, 0, 0, 1])
    assert one.coverage.tolist() == [0.25, 1.0]
    assert one.risk.tolist() == other.risk.tolist() == [0.0, 0.25]
    assert one.area == other.area == pytest.approx(0.75 * 0.25)


def test_no_confidence_at_all_is_the_mean_loss() -> None:
    assert curve([1, 1, 1, 1], [0, 1, 0, 1]).area == 0.5


def test_the_order_of_questions_and_the_scale_of_confidence_change_nothing() -> None:
    chance = np.random.default_rng(3)
    confidence, loss = chance.normal(size=50), chance.random(50)
    found = risk_coverage(confidence, loss, 7)
    order = chance.permutation(50)
    again = risk_coverage(np.exp(confidence[order]), loss[order], 7)
    assert found is not None
    assert again is not None
    assert (again.area, again.low, again.high) == pytest.approx((found.area, found.low, found.high))


def test_the_area_is_that_of_its_definition() -> None:
    chance = np.random.default_rng(4)
    confidence, loss = chance.permutation(40).astype(float), chance.random(40)
    order = np.argsort(-confidence)
    slow = np.mean([loss[order][: n + 1].mean() for n in range(40)])
    best = np.mean([np.sort(loss)[: n + 1].mean() for n in range(40)])
    found = risk_coverage(confidence, loss, 7)
    assert found is not None
    assert found.area == pytest.approx(slow)
    assert found.excess == pytest.approx(slow - best)
    assert found.low <= found.area <= found.high


def test_the_interval_narrows_with_questions_and_hangs_on_the_seed_alone() -> None:
    chance = np.random.default_rng(5)

    def width(n: int) -> float:
        found = risk_coverage(chance.random(n), chance.random(n), 7)
        assert found is not None
        return found.high - found.low

    assert width(2000) < width(50) / 2
    assert curve([3, 2, 1], [0, 1, 0]).low == curve([3, 2, 1], [0, 1, 0]).low


@pytest.mark.parametrize("n", [0, 1, 2])
def test_few_questions(n: int) -> None:
    found = risk_coverage(np.arange(n, dtype=float), np.ones(n), 7)
    assert (found is None) == (n == 0)
    if found:
        assert (found.area, found.excess, found.low, found.high, found.n) == (1.0, 0.0, 1.0, 1.0, n)
