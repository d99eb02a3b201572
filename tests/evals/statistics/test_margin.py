"""Differences within the margin: shown by the whole interval, in the family, on enough documents."""

from __future__ import annotations

import numpy as np
import pytest

from rag_assay.evals.statistics.significance import Contrasts, contrasts

MARGIN = 0.02
SPREAD = np.tile([-0.0005, 0.0005], 8)[:, None]


def compared(differences: np.ndarray, margin: float = MARGIN, clusters: int = 8) -> Contrasts:
    """Questions are in turn of each of the documents."""
    return contrasts(differences, 7, np.arange(len(differences)) % clusters, margin=margin)


def test_a_significant_difference_of_a_thousandth_is_within_the_margin() -> None:
    found = compared(np.tile(-0.001 + 0.0002 * np.arange(8) / 8, 2)[:, None])
    assert found.p[0] < 0.05
    assert found.within.tolist() == [True]
    assert found.apart.tolist() == [False]
    assert np.isnan(found.needed[0]), "nothing is left to settle"


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize(
    ("difference", "within"), [(0.0, True), (0.001, True), (0.0199, True), (MARGIN, False), (0.3, False)]
)
def test_without_spread_the_difference_itself_decides(difference: float, within: bool, sign: float) -> None:
    found = compared(np.full((16, 1), sign * difference))
    assert found.within.tolist() == [within]
    assert found.apart.tolist() == [not within]


@pytest.mark.parametrize("offset", [0.0, 0.004, 0.012, 0.0196, 0.0204, 0.05])
def test_the_sign_of_a_difference_changes_nothing(offset: float) -> None:
    chance = np.random.default_rng(1)
    values = offset + 0.003 * chance.standard_normal((16, 1))
    one, other = compared(values), compared(-values)
    assert one.within.tolist() == other.within.tolist()
    assert one.within[0] == (one.differences.low[0] > -MARGIN and one.differences.high[0] < MARGIN)


def test_ties_with_a_wide_interval_are_not_within_the_margin() -> None:
    values = np.tile([-0.3, 0.3], 8)[:, None]
    found = contrasts(values, 7, margin=MARGIN)
    assert (found.within.tolist(), found.apart.tolist()) == ([False], [False])


@pytest.mark.parametrize(("clusters", "within"), [(1, False), (2, False), (5, False), (6, True)])
def test_few_documents_show_nothing(clusters: int, within: bool) -> None:
    values = -0.001 + 0.0001 * np.random.default_rng(3).standard_normal((30, 1))
    assert compared(values, clusters=clusters).within.tolist() == [within]


def test_a_margin_of_zero_or_none_holds_nothing_and_a_huge_one_everything() -> None:
    values = np.hstack([np.zeros((16, 1)), SPREAD, SPREAD - 0.4, np.full((16, 1), np.nan)])
    assert not compared(values, 0.0).within.any()
    assert not compared(values, float("nan")).within.any()
    assert compared(values, 10.0).within.tolist() == [True, True, True, False]


def test_equal_binary_values_have_an_interval_that_a_small_margin_does_not_hold() -> None:
    none = np.zeros((16, 1))
    assert contrasts(none, 7, binary=True, margin=MARGIN).within.tolist() == [False]
    assert contrasts(none, 7, binary=True, margin=0.9).within.tolist() == [True]


@pytest.mark.parametrize(("documents", "cells"), [(8, 20), (28, 20), (28, 3)])
def test_cells_that_lose_as_much_as_the_margin_are_called_within_it_in_one_study_of_twenty(
    documents: int, cells: int
) -> None:
    chance, studies = np.random.default_rng(5), 150
    wrong = alone = 0
    for seed in range(studies):
        noise = 0.005 * chance.standard_normal((documents, cells))
        values = noise[:, 1:] - noise[:, :1] - MARGIN
        found = contrasts(values, seed, resamples=500, margin=MARGIN)
        wrong += bool(found.within.any())
        alone += bool((found.differences.low > -MARGIN).any())
    assert wrong / studies < 0.09
    assert cells == 3 or alone > 2 * wrong, "intervals of one difference each would not do"
