"""Statistics of few values, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from rag_assay.evals.human.queue_builder import likely_variance
from rag_assay.evals.judge_calibration.card import accuracy
from rag_assay.evals.judging.contract import JudgedMetric
from rag_assay.evals.statistics.bootstrap import UNIT, Interval, bootstrap, intervals
from rag_assay.evals.statistics.clusters import sum_clusters
from rag_assay.evals.statistics.comparison import primary_of
from rag_assay.evals.statistics.estimate import Estimate, least_of_all, share
from rag_assay.evals.statistics.full_crossing import find_crossing
from rag_assay.evals.statistics.raters import (
    bias_of,
    change,
    cohens_kappa,
    equal_pairs,
    kendall,
    krippendorffs_alpha,
    mean_of,
    over_clusters,
    roc_auc,
)
from rag_assay.evals.statistics.risk_coverage import risk_coverage
from rag_assay.evals.statistics.significance import detectable, paired_bootstrap


def test_values_by_hand() -> None:
    assert bootstrap(np.array([0.5, 0.5, 0.5]), seed=7) == Interval(0.5, 0.5, 0.5)
    (found,) = intervals(np.ones((8, 1)), 7, None, UNIT)
    assert found is not None
    assert found.low == pytest.approx(0.59, abs=0.005)
    assert sum_clusters(np.array([[1.0], [2.0], [4.0]]), np.array([0, 1, 0])).ravel().tolist() == [5.0, 2.0]
    assert primary_of(["evidence_coverage@5", "ndcg@10"], ["ndcg@10", "recall@10"]) == "ndcg@10"
    assert detectable(np.array([0.02]), 0.0392).round(3).tolist() == [0.056]
    assert round(least_of_all(10), 3) == 0.722
    assert find_crossing([("s", "bm25"), ("m", "dense")], [0]) is None
    one, other = np.arange(8.0), np.array([1.0, 0, 2, 3, 5, 4, 7, 6])
    tau = over_clusters(kendall, one, other, np.array([0, 0, 1, 1, 2, 2, 3, 3]))
    assert (tau.low or 0) < (tau.value or 0) < (tau.high or 0)
    assert bias_of(np.array([3.5, 0.5, 0.5, 2.0, 1.0]), seed=7).value == 1.5
    items, values = np.array([0, 0, 0, 1, 1, 2]), np.array([5.0, 5.0, 0.0, 3.0, 3.0, 0.0])
    assert equal_pairs(items, values, seed=7).value == pytest.approx(2 / 3)
    slope = change(np.array([0.0, 0, 0, 1, 1, 1]), np.array([1.0, 2, 3, 3, 4, 5]))
    assert (slope.low or 9) < 2 < (slope.high or 0)
    curve = risk_coverage(np.array([0.9, 0.8, 0.7, 0.6]), np.array([0.0, 1.0, 0.0, 1.0]), seed=7)
    assert curve is not None
    assert (round(curve.area, 4), round(curve.excess, 4)) == (0.3333, 0.125)  # less (0 + 0 + 1/3 + 1/2) / 4
    two = paired_bootstrap(np.array([[0.2], [0.4], [0.3], [0.1]]), seed=7, clusters=np.array([0, 0, 1, 1]))
    assert two.p.tolist() == [0.5]
    assert likely_variance([], (0, 1), 100) == 0.25 * 100 / 99


def test_what_cannot_be_estimated_says_why() -> None:
    same = np.array([1.0, 1])
    assert cohens_kappa(same, same).reason == "both raters give one grade to all cases"
    assert kendall(np.ones(3), np.array([1.0, 3, 2])).reason == "one of the two is the same in all cases"
    assert mean_of(np.array([]), seed=7).reason == "there is none"
    assert share(0, 0).reason == "there is no case"
    assert roc_auc(np.array([True, True]), np.array([0.9, 0.5])).reason == "all cases have the same label"
    alone = krippendorffs_alpha(np.array([0, 1]), np.array([5.0, 3.0]), "interval", seed=7)
    assert alone.reason == "no item was scored by two people"
    coin = accuracy(share(9, 10), Estimate(0.46, 0.33, 0.6, 10), JudgedMetric("polite", bounds=(-1, 1)))
    assert coin.reason == "by its AUC, 0.460 [0.330-0.600], it is no better than chance"
