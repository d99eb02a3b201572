from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy.stats import norm

from benchmarks.people import PEOPLE, coverage
from rag_assay.evals.statistics.prediction_powered import Items, difference, estimate_mean

FAR = (-1e6, 1e6)  # bounds that bind nothing
JUDGEMENTS = Path(__file__).parents[2] / "golden" / "cosines.json"


@pytest.fixture(scope="module")
def ppi() -> ModuleType:
    """ppi_py, which imports numba, scikit-learn and statsmodels: no process needs it to collect the tests."""
    import ppi_py

    return ppi_py


def sample(
    seed: int, items: int = 200, labels: int = 60, noise: float = 0.5
) -> tuple[np.ndarray, np.ndarray]:
    chance = np.random.default_rng(seed)
    judged = chance.normal(size=items)
    scores = np.full(items, np.nan)
    some = chance.choice(items, labels, replace=False)
    scores[some] = 2 + 0.7 * judged[some] + noise * chance.normal(size=labels)
    return scores, judged


def split(scores: np.ndarray, judged: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    there = ~np.isnan(scores)
    return scores[there], judged[there], judged[~there]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0, None])
def test_estimates_are_those_of_ppi_python(ppi: ModuleType, seed: int, weight: float | None) -> None:
    """It takes the mean over unscored items alone, so that its weight is ours times their share."""
    scores, judged = sample(seed)
    y, of_scored, of_others = split(scores, judged)
    expected = float(np.squeeze(ppi.ppi_mean_pointestimate(y, of_scored, of_others, lam=weight)))
    if weight is None:  # what it has tuned
        weight = (expected - y.mean()) / (of_others.mean() - of_scored.mean())
    found = estimate_mean(Items(scores, judged, FAR), power=weight * len(judged) / len(of_others))
    assert found.combined.value == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_errors_are_those_of_ppi_python(ppi: ModuleType, seed: int, weight: float) -> None:
    """Where both samples have the same mean of judgements: it knows each about its own mean alone."""
    scores, judged = sample(seed)
    there = ~np.isnan(scores)
    judged = np.where(there, judged - judged[there].mean(), judged - judged[~there].mean())
    y, of_scored, of_others = split(scores, judged)
    low, high = (float(np.squeeze(end)) for end in ppi.ppi_mean_ci(y, of_scored, of_others, 0.05, lam=weight))
    found = estimate_mean(Items(scores, judged, FAR), power=weight * len(judged) / len(of_others)).combined
    assert found.error is not None
    lost = np.sqrt(60 / (60 - 2))  # degrees of freedom, for which it counts none
    assert found.error / lost == pytest.approx((high - low) / 2 / norm.ppf(0.975), abs=1e-9)


def test_the_power_is_that_of_ppi_python_where_both_samples_are_alike(ppi: ModuleType) -> None:
    scores, judged = sample(3, items=60, labels=60)
    judged = np.concatenate([judged, judged, judged + 1e-3])  # equal spread; another mean, to see the weight
    scores = np.concatenate([scores, np.full(120, np.nan)])
    y, of_scored, of_others = split(scores, judged)
    tuned = float(np.squeeze(ppi.ppi_mean_pointestimate(y, of_scored, of_others)))
    weight = (tuned - y.mean()) / (of_others.mean() - of_scored.mean())
    found = estimate_mean(Items(scores, judged, FAR)).combined.power
    assert found * 120 / 180 == pytest.approx(weight * 180 / 179, rel=1e-6)  # its variance is less one item


def test_all_scored_is_the_plain_mean() -> None:
    scores, judged = sample(1, items=40, labels=40)
    found = estimate_mean(Items(scores, judged, FAR, drawn=np.linspace(0.1, 1, 40)))
    assert found.combined == found.people
    assert found.people.value == pytest.approx(scores.mean())
    assert found.people.error == pytest.approx(scores.std(ddof=1) / np.sqrt(40))
    assert (found.saved, found.width) == (0.0, 1.0)


def test_nobody_and_one_alone() -> None:
    judged = np.linspace(0, 1, 9)
    nobody = estimate_mean(Items(np.full(9, np.nan), judged, (0, 5)))
    assert (nobody.combined.value, nobody.people.low, nobody.saved, nobody.width) == (None, None, 0.0, None)
    one = estimate_mean(Items(np.array([3.0, *[np.nan] * 8]), judged, (0, 5)))
    assert (one.combined.value, one.combined.low, one.combined.labels) == (3.0, None, 1)
    assert estimate_mean(Items(np.zeros(0), np.zeros(0), (0, 5))).combined.value is None


@pytest.mark.parametrize("judged", [np.full(50, 0.3), np.full(50, np.nan), np.zeros(50), np.full(50, 1e9)])
def test_a_judge_without_an_opinion_leaves_people_alone(judged: np.ndarray) -> None:
    scores, _ = sample(2, items=50, labels=20)
    found = estimate_mean(Items(scores, judged, FAR))
    assert found.combined == found.people


def test_a_judge_that_says_the_opposite_leaves_people_alone() -> None:
    scores, judged = sample(2, noise=0.1)
    assert estimate_mean(Items(scores, -judged, FAR)).saved == 0
    assert estimate_mean(Items(scores, judged, FAR)).saved > 50


def test_the_scale_of_a_judge_is_no_matter() -> None:
    scores, judged = sample(4)
    plain, other = (estimate_mean(Items(scores, one, FAR)).combined for one in (judged, 40 + 0.01 * judged))
    assert other.value == pytest.approx(plain.value)
    assert other.error == pytest.approx(plain.error)
    assert other.share == pytest.approx(plain.share)
    assert 0 < plain.share < 1


def test_missing_judgements_are_its_mean_and_change_nothing_in_what_is_estimated() -> None:
    scores, judged = sample(5, noise=0.0)
    judged[np.random.default_rng(1).random(200) < 0.5] = np.nan
    found = estimate_mean(Items(scores, judged, FAR))
    assert (found.combined.labels, found.combined.items) == (60, 200)
    assert found.combined.error < found.people.error
    full = np.where(np.isnan(judged), np.nanmean(judged), judged)
    assert estimate_mean(Items(scores, full, FAR)).combined.value == pytest.approx(found.combined.value)


def test_equal_scores_are_no_proof_that_there_are_no_others() -> None:
    judged = np.linspace(0, 1, 100)
    few, many = (
        estimate_mean(Items(np.array([5.0] * n + [np.nan] * (100 - n)), judged, (0, 5))).combined
        for n in (5, 50)
    )
    assert few.low < many.low < 5 == many.high == many.value
    middle = estimate_mean(Items(np.array([3.0] * 20 + [np.nan] * 80), judged, (0, 5))).combined
    assert middle.low < 3 < middle.high


def test_probabilities_count_but_for_a_factor_and_undo_what_they_did() -> None:
    chance = np.random.default_rng(8)
    values = np.concatenate([np.full(5_000, 5.0), np.zeros(5_000)])  # of which the bad ones are drawn more
    drawn = np.where(values == 0, 0.2, 0.02)
    scores = np.where(chance.random(10_000) < drawn, values, np.nan)
    items = Items(scores, chance.normal(size=10_000), (0, 5), drawn)
    assert np.nanmean(scores) < 1
    assert estimate_mean(items).people.low < 2.5 < estimate_mean(items).people.high
    assert estimate_mean(items._replace(drawn=drawn / 7)).combined.value == pytest.approx(
        estimate_mean(items).combined.value
    )


def test_an_item_in_several_cells_counts_once() -> None:
    scores, judged = sample(6)
    once = estimate_mean(Items(scores, judged, FAR))
    thrice = estimate_mean(
        Items(np.repeat(scores, 3), np.repeat(judged, 3), FAR, None, np.repeat(np.arange(200), 3))
    )
    for one, other in ((once.people, thrice.people), (once.combined, thrice.combined)):
        assert other.error == pytest.approx(one.error)
        assert (other.low, other.high) == pytest.approx((one.low, one.high))
    blind = estimate_mean(Items(np.repeat(scores, 3), np.repeat(judged, 3), FAR))
    assert blind.people.error < 0.6 * once.people.error


def test_a_difference_forgets_what_is_hard_for_both() -> None:
    chance = np.random.default_rng(3)
    clusters, hard = np.arange(80), chance.normal(size=80)
    scored = chance.random(80) < 0.5
    one, other = (
        estimate_mean(
            Items(
                np.where(scored, 3 + more + hard + 0.1 * chance.normal(size=80), np.nan),
                hard,
                FAR,
                None,
                clusters,
            )
        )
        for more in (0.5, 0.0)
    )
    apart = difference(one.people, other.people, FAR)
    assert apart.value == pytest.approx(0.5, abs=0.1)
    assert apart.error < 0.3 * one.people.error
    itself = difference(one.combined, one.combined, FAR)
    assert (itself.value, itself.error) == (0, 0)
    assert (
        difference(
            one.people, estimate_mean(Items(np.full(80, np.nan), hard, FAR, None, clusters)).people, FAR
        ).value
        is None
    )


def test_labels_for_a_wanted_interval() -> None:
    scores, judged = sample(9, items=2_000, labels=100)
    found = estimate_mean(Items(scores, judged, FAR))
    half = (found.combined.high - found.combined.low) / 2
    assert found.labels_for(half) == pytest.approx(100, abs=8)
    assert found.labels_for(half / 1.5) > 200
    assert found.labels_for(1e-9) is None, "all items would not do"


def test_intervals_hold_the_truth_and_are_as_narrow_as_they_say() -> None:
    """`make bench-people` shows all settings, with more runs."""
    judgements = np.array(json.loads(JUDGEMENTS.read_text()))
    for clustered, disputed, n in (
        (False, False, 20),
        (True, False, 50),
        (False, True, 100),
        (True, True, 200),
    ):
        found = coverage(judgements, PEOPLE[0], n, 400, clustered=clustered, disputed=disputed)
        assert 0.92 <= found.combined <= 0.98, (clustered, disputed, n)
        assert found.said / found.measured == pytest.approx(1, abs=0.1)
        assert found.said < 0.97
