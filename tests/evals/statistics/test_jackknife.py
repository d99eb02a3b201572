from __future__ import annotations

import numpy as np
import pytest

from rag_assay.evals.statistics.estimate import Estimate, Floats
from rag_assay.evals.statistics.raters import kendall, over_clusters, roc_auc


def area(one: Floats, other: Floats) -> Estimate:
    return roc_auc(one > 0, other)


def cases(
    seed: int, groups: int = 40, each: int = 5, shared: float = 1.0
) -> tuple[Floats, Floats, np.ndarray]:
    """Labels and values of clustered cases: a part of what makes both is the cluster's."""
    chance = np.random.default_rng(seed)
    clusters = np.repeat(np.arange(groups), each)
    hard, mood = shared * chance.normal(size=(2, groups))
    one = hard[clusters] + chance.normal(size=len(clusters))
    other = one + mood[clusters] + 2 * hard[clusters] + chance.normal(size=len(clusters))
    return (one > 0).astype(float), other, clusters


def test_cases_of_their_own_are_as_they_come() -> None:
    labels, values, _ = cases(1)
    assert over_clusters(area, labels, values, np.arange(len(labels)), (0, 1)) == area(labels, values)


def test_the_same_case_thrice_is_no_three_cases() -> None:
    labels, values, _ = cases(2, groups=60, each=1)
    once = area(labels, values)
    thrice = over_clusters(
        area, *(np.repeat(x, 3) for x in (labels, values)), np.repeat(np.arange(60), 3), (0, 1)
    )
    assert thrice.value == pytest.approx(once.value)
    assert thrice.high - thrice.low == pytest.approx(once.high - once.low, rel=0.15)


def test_intervals_of_clustered_cases_hold_the_truth() -> None:
    labels, values, _ = cases(99, groups=20_000)
    truth = area(labels, values).value
    held = {"clustered": 0, "blind": 0}
    for seed in range(100):
        labels, values, clusters = cases(seed)
        for name, found in (
            ("clustered", over_clusters(area, labels, values, clusters, (0, 1))),
            ("blind", area(labels, values)),
        ):
            held[name] += found.low <= truth <= found.high
    assert held["clustered"] / 100 > 0.91
    assert held["blind"] < held["clustered"]


def test_perfect_agreement_few_clusters_and_nothing() -> None:
    rising = np.arange(12.0)
    clusters = np.repeat(np.arange(4), 3)
    perfect = over_clusters(kendall, rising, rising, clusters)
    assert (perfect.value, perfect.high) == (1, 1)
    assert perfect.low < kendall(rising, rising).low, "four cases, and not twelve"
    opposite = over_clusters(kendall, rising, -rising, clusters)
    assert (opposite.value, opposite.low, opposite.high) == (-1, -1, pytest.approx(-perfect.low))
    few = over_clusters(kendall, rising, rising, np.repeat([0, 1], 6))
    assert (few.low, few.reason) == (None, "no interval: they are of 2 independent questions")
    assert over_clusters(kendall, rising * 0, rising, clusters).value is None
    alone = np.array([1.0, 1, 1] + [0.0] * 9)  # all good cases are of one cluster
    assert over_clusters(area, alone, rising % 5, clusters, (0, 1)).reason.endswith("nothing to compare")
