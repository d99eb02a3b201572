"""Comparisons with the leader, what could have been found, and the noise of replicates."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from rag_assay.evals.statistics.board import components
from rag_assay.evals.statistics.significance import (
    ALPHA,
    contrasts,
    detectable,
    paired_bootstrap,
    questions_needed,
)


def test_open_comparisons_say_how_many_questions_would_settle_them() -> None:
    columns = np.random.default_rng(3).normal([-0.1, -0.3, -0.5, -0.7], 1, size=(60, 4))
    found = contrasts(columns, 7)
    assert (found.p < ALPHA).any()
    assert (found.p >= ALPHA).any()
    assert np.isnan(found.needed[found.p < ALPHA]).all()
    assert (found.needed[found.p >= ALPHA] > 0).all()


@pytest.mark.parametrize("values", [np.zeros((0, 2)), np.full((5, 2), np.nan)])
def test_nothing_to_compare(values: np.ndarray) -> None:
    found = contrasts(values, 7)
    assert not (found.p < ALPHA).any()
    assert np.isnan(found.differences.mean).all()
    assert len(contrasts(np.zeros((5, 0)), 7).p) == 0


def test_one_question_and_one_cluster_tell_nothing() -> None:
    for values, clusters in ((np.ones((1, 1)), None), (np.ones((30, 1)), np.zeros(30, np.int64))):
        found = contrasts(values, 7, clusters)
        assert found.p.tolist() == [1.0]
        assert np.isnan(found.needed[0])
        assert not np.isfinite(found.detectable[0])


def test_a_rare_difference_of_a_binary_metric_has_an_interval() -> None:
    values = np.array([-1.0] + [0.0] * 29)[:, None]
    plain, binary = contrasts(values, 7), contrasts(values, 7, binary=True)
    assert np.isnan(plain.differences.low[0])
    low, high = float(binary.differences.low[0]), float(binary.differences.high[0])
    # Agresti and Min: (0.5 - 1.5) / 32 ± t * sqrt((0.5 + 1.5) / 32 - (1 / 32)^2) / sqrt(32)
    half = stats.t.ppf(0.975, 29) * np.sqrt((2 / 32 - 1 / 32**2) / 32)
    assert (low, high) == pytest.approx((-1 / 32 - half, -1 / 32 + half), abs=0.001)
    none = contrasts(np.zeros((30, 1)), 7, binary=True)
    assert none.differences.low[0] < 0 < none.differences.high[0]


def test_what_is_detectable_is_found_four_times_out_of_five() -> None:
    """The power of Student's test against it, as statsmodels' TTestPower and G*Power compute it: by nct."""
    n, sd = 80, 0.3
    error = np.array([sd / np.sqrt(n)])
    least = detectable(error, float(stats.t.ppf(1 - ALPHA / 2, n - 1) * error[0]))[0]
    noncentral = stats.nct(n - 1, least / error[0])
    assert noncentral.sf(stats.t.ppf(1 - ALPHA / 2, n - 1)) == pytest.approx(0.8, abs=0.01)
    chance = np.random.default_rng(1)
    columns = chance.normal(least, sd, size=(n, 1_500))
    assert (paired_bootstrap(columns, 7, 600).p < ALPHA).mean() == pytest.approx(0.8, abs=0.035)


def test_questions_needed_by_the_textbook() -> None:
    """Cohen's example: d = 0.5, alpha 0.05 two-sided, power 0.8, one sample: 31.4 by the normal, so 32."""
    found = questions_needed(np.array([0.5]), np.array([0.1]), np.array([100.0]), 0.1959964, 1)
    assert found.tolist() == [32]


def test_questions_needed_where_none_are_enough() -> None:
    error, n = np.array([0.1, 0.1, 0.0, np.nan]), np.full(4, 50.0)
    found = questions_needed(np.array([0.0, 1e-9, 0.2, 0.2]), error, n, 2.0, 4)
    assert np.isnan(found).all()
    five = contrasts(np.array([[0.3], [0.5], [0.4], [0.1], [0.2]]), 7)
    assert five.detectable[0] == np.inf
    assert 1 <= five.needed[0] < 20, "more questions like these would settle it"


def test_more_questions_than_needed_do_tell_apart() -> None:
    chance = np.random.default_rng(5)
    pilot = chance.normal(0, 1, size=(60, 1))
    pilot += -0.2 - pilot.mean()
    found = contrasts(pilot, 7)
    assert found.p[0] >= ALPHA
    truth = float(pilot.mean())
    more = chance.normal(truth, pilot.std(ddof=1), size=(int(found.needed[0]), 400))
    assert (stats.ttest_1samp(more, 0.0).pvalue < ALPHA).mean() == pytest.approx(0.8, abs=0.06)


def test_noise_of_questions_and_of_replicates_by_hand() -> None:
    """Means 2 and 6: within is (1 + 1 + 1 + 1) / 2, between 2 * (4 + 4) / 1, and 7 = (16 - 2) / 2."""
    found = components(np.array([[1.0, 3.0], [5.0, 7.0]]))
    assert found is not None
    assert (found.replicates**2, found.questions**2) == pytest.approx((2, 7))


def test_noise_is_found_again_and_gaps_do_not_bias_it() -> None:
    chance = np.random.default_rng(4)
    values = chance.normal(0, 0.3, size=(4_000, 1)) + chance.normal(0, 0.1, size=(4_000, 4))
    found = components(values)
    assert found is not None
    assert found == pytest.approx((0.3, 0.1), rel=0.05)
    gappy = components(np.where(chance.random(values.shape) < 0.3, np.nan, values))
    assert gappy == pytest.approx((0.3, 0.1), rel=0.06)


def test_where_replicates_are_alike_or_all_there_is() -> None:
    assert components(np.array([[1.0, 1.0], [0.0, 0.0]])) == pytest.approx((np.sqrt(0.5), 0))
    only = components(np.random.default_rng(1).normal(size=(500, 3)))
    assert only is not None
    assert only.questions < 0.2
    assert only.replicates == pytest.approx(1, abs=0.06)


@pytest.mark.parametrize(
    "table", [np.zeros((1, 3)), np.zeros((0, 2)), np.array([[1.0, np.nan], [np.nan, 2.0]]), np.zeros((4, 1))]
)
def test_what_cannot_be_split(table: np.ndarray) -> None:
    assert components(table) is None
