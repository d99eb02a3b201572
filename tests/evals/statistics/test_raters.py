"""People with known habits are found out: who is mild, who drifts, who cannot repeat themselves."""

from collections.abc import Callable

import numpy as np
import pytest

from rag_assay.evals.statistics.raters import (
    bias_of,
    change,
    cohens_kappa,
    equal_pairs,
    krippendorffs_alpha,
    mean_of,
    to_the_others,
)

GRADES = np.array([0.0, 1, 2, 3, 4])
RUNS = 200
Person = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def person(bias: float = 0.0, noise: float = 0.5, drift: float = 0.0) -> Person:
    """Return somebody who sees an item's worth through a habit and chance."""

    def scores(worth: np.ndarray, chance: np.random.Generator) -> np.ndarray:
        along = np.linspace(-0.5, 0.5, len(worth))
        # No bounds and no steps: they would shrink the habit that is to be found again.
        return worth + bias + drift * along + noise * chance.standard_normal(len(worth))

    return scores


def panel(people: list[Person], seed: int, n: int = 80) -> tuple[np.ndarray, np.ndarray]:
    """Return the items and values of people who score the same items, a person after the other."""
    chance = np.random.default_rng(seed)
    worth = chance.choice(GRADES, size=n)
    return np.tile(np.arange(n), len(people)), np.concatenate([one(worth, chance) for one in people])


def test_a_mild_person_is_mild_by_as_much() -> None:
    held, width = 0, []
    for seed in range(RUNS):
        items, values = panel([person(bias=0.3), person(), person()], seed)
        found = bias_of(to_the_others(items, values)[:80], seed)
        held += found.low <= 0.3 <= found.high
        width.append(found.high - found.low)
    assert 0.91 <= held / RUNS <= 0.98
    assert np.mean(width) < 0.35


def test_one_item_in_forty_makes_nobody_mild() -> None:
    found = bias_of(np.repeat([1.0, 0.0], [1, 39]), seed=7)
    assert found.value == 1 / 40
    assert found.low < 0 < found.high
    points = bias_of(np.repeat([5.0, 0.0], [1, 39]), seed=7)
    assert (points.value, points.low, points.reason) == (5 / 40, None, "no interval: too few differ")


def test_a_drift_is_found_by_the_line_and_by_the_halves_and_others_have_none() -> None:
    held = {"line": 0, "halves": 0, "nothing": 0}
    along, half = np.linspace(-0.5, 0.5, 80), np.repeat([0.0, 1.0], 40)
    for seed in range(RUNS):
        items, values = panel([person(drift=0.8), person(), person()], seed)
        apart = to_the_others(items, values)
        line, halves = change(along, apart[:80]), change(half, apart[:80])
        held["line"] += line.low <= 0.8 <= line.high
        held["halves"] += halves.low <= 0.8 * (40 / 79) <= halves.high
        of_others = panel([person(), person(), person()], seed + RUNS)
        nothing = change(along, to_the_others(*of_others)[:80])
        held["nothing"] += nothing.low <= 0 <= nothing.high
    assert all(0.91 <= times / RUNS <= 0.99 for times in held.values()), held


def test_a_noisier_panel_agrees_less_by_every_measure() -> None:
    def of(noise: float) -> tuple[float, float, float]:
        items, values = panel([person(noise=noise), person(noise=noise)], seed=3, n=300)
        grades = np.clip(np.round(values), 0, 4)
        one, other = grades[:300], grades[300:]
        return (
            krippendorffs_alpha(items, grades, "ordinal", seed=7).value,
            cohens_kappa(one, other, "quadratic").value,
            equal_pairs(items, grades, seed=7).value,
        )

    for sure, unsure, wild in zip(of(0.2), of(0.6), of(1.5), strict=True):
        assert sure > unsure > wild


def test_raw_agreement_of_two_is_the_share_of_equal_scores() -> None:
    items = np.tile(np.arange(10), 2)
    values = np.concatenate([np.zeros(10), np.repeat([0.0, 5.0], [7, 3])])
    found = equal_pairs(items, values, seed=7)
    assert (found.value, found.n) == (0.7, 10)
    assert found.low < 0.5
    assert 0.85 < found.high < 0.93  # Wilson's: it is a share


def test_clusters_make_an_interval_as_wide_as_they_are_few() -> None:
    chance = np.random.default_rng(2)
    worth = np.repeat(chance.standard_normal(12), 10)
    clusters = np.repeat(np.arange(12), 10)
    at = np.tile(np.linspace(0, 1, 10), 12) + worth
    assert change(at, worth, clusters).n == 120
    loose, held = mean_of(worth, seed=7), mean_of(worth, seed=7, clusters=clusters)
    assert held.high - held.low > 2 * (loose.high - loose.low)
    one, other = np.sign(worth), np.sign(worth + 0.3)
    alone, together = cohens_kappa(one, other), cohens_kappa(one, other, clusters=clusters)
    assert alone.value == together.value
    assert together.high - together.low > 1.5 * (alone.high - alone.low)


def test_kappas_interval_over_clusters_covers() -> None:
    held = 0
    for seed in range(RUNS):
        chance = np.random.default_rng(seed)
        truth = np.repeat(chance.integers(0, 2, 60), 4)
        wrong = np.repeat(chance.random(60) < 0.2, 4)
        found = cohens_kappa(truth, np.where(wrong, 1 - truth, truth), clusters=np.repeat(np.arange(60), 4))
        held += found.low <= 0.6 <= found.high
    assert 0.90 <= held / RUNS <= 0.98


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (mean_of(np.array([]), seed=7), "there is none"),
        (bias_of(np.array([]), seed=7), "no other annotator"),
        (mean_of(np.array([1.0]), seed=7), "too few for an interval"),
        (change(np.array([]), np.array([])), "too few"),
        (change(np.array([1.0, 1, 1, 1]), np.arange(4.0)), "all at one place"),
        (change(np.arange(6.0), np.arange(6.0), np.array([0, 0, 0, 1, 1, 1])), "stand or fall together"),
        (cohens_kappa(np.array([1.0, 0]), np.array([1.0, 1]), clusters=np.zeros(2, int)), "stand or fall"),
        (equal_pairs(np.arange(4), np.arange(4.0), seed=7), "there is none"),
        (equal_pairs(np.zeros(0, int), np.zeros(0), seed=7), "there is none"),
    ],
)
def test_what_cannot_be_computed_says_why(found, reason) -> None:
    assert reason in found.reason
    assert found.low is None


def test_two_who_always_differ_are_nobodys_bias() -> None:
    items, values = np.tile(np.arange(40), 2), np.concatenate([np.ones(40), np.zeros(40)])
    apart = to_the_others(items, values)
    mild, strict = bias_of(apart[:40], seed=7), bias_of(apart[40:], seed=7)
    assert (mild.value, strict.value) == (1.0, -1.0)
    assert mild.low > 0.8
    assert strict.high < -0.8
    assert cohens_kappa(values[:40], values[40:]).value == 0.0
    # As many pairs apart as chance gives, and no pair less: alpha is just below nothing, by its small sample.
    assert krippendorffs_alpha(items, values, "nominal", seed=7).value == pytest.approx(-39 / 40, abs=0.05)
