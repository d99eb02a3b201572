"""AUC, kappa, rank correlations and shares: published examples, scipy, coverage, and what has no value."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

import numpy as np
import pytest
from scipy.stats import binomtest, kendalltau, mannwhitneyu, spearmanr

from rag_assay.evals.statistics.estimate import Estimate, Floats, Z, share
from rag_assay.evals.statistics.raters import Weights, cohens_kappa, delong, kendall, roc_auc, spearman

# Albumin, total protein, K-G score, and whether surgery helped: 43 patients of DeLong, DeLong and
# Clarke-Pearson (1988), as in the SAS/STAT User's Guide, LOGISTIC, "Comparing ROC Curves".
PATIENTS = """
3.0 5.8 10 0 3.2 6.3 5 1 3.9 6.8 3 1 2.8 4.8 6 0 3.2 5.8 3 1 0.9 4.0 5 0 2.5 5.7 8 0 1.6 5.6 5 1 3.8 5.7 5 1
3.7 6.7 6 1 3.2 5.4 4 1 3.8 6.6 6 1 4.1 6.6 5 1 3.6 5.7 5 1 4.3 7.0 4 1 3.6 6.7 4 0 2.3 4.4 6 1 4.2 7.6 4 0
4.0 6.6 6 0 3.5 5.8 6 1 3.8 6.8 7 1 3.0 4.7 8 0 4.5 7.4 5 1 3.7 7.4 5 1 3.1 6.6 6 1 4.1 8.2 6 1 4.3 7.0 5 1
4.3 6.5 4 1 3.2 5.1 5 1 2.6 4.7 6 1 3.3 6.8 6 0 1.7 4.0 7 0 3.7 6.1 5 1 3.3 6.3 7 1 4.2 7.7 6 1 3.5 6.2 5 1
2.9 5.7 9 0 2.1 4.8 7 1 2.8 6.2 8 0 4.0 7.0 7 1 3.3 5.7 6 1 3.7 6.9 5 1 3.6 6.6 5 1
"""
# Two dermatologists' grades of 88 patients: SAS/STAT User's Guide, FREQ, "Agreement Study".
SKIN = [[10, 4, 1, 0], [5, 10, 12, 2], [2, 4, 12, 5], [0, 2, 6, 13]]
# Income and job satisfaction of 96 men: Agresti, An Introduction to Categorical Data Analysis, table 2.8.
SATISFACTION = [[1, 3, 10, 6], [2, 3, 10, 7], [1, 6, 14, 12], [0, 1, 9, 11]]


def cases(table: list[list[int]]) -> tuple[Floats, Floats]:
    """Return the two grades of each case of a table of counts."""
    counts = np.array(table)
    rows, columns = np.indices(counts.shape)
    return (
        np.repeat(rows.ravel(), counts.ravel()).astype(float),
        np.repeat(columns.ravel(), counts.ravel()).astype(float),
    )


@pytest.mark.parametrize(
    ("column", "sign", "area", "error"),
    [(0, 1, 0.7366, 0.0927), (1, 1, 0.6478, 0.1000), (2, -1, 0.7258, 0.1028)],
)
def test_the_area_and_its_error_are_those_of_delongs_patients(
    column: int, sign: int, area: float, error: float
) -> None:
    rows = np.array(PATIENTS.split(), float).reshape(-1, 4)
    helped, scores = rows[:, 3] == 1, sign * rows[:, column]
    found = delong(scores[helped], scores[~helped])
    assert found == (pytest.approx(area, abs=5e-5), pytest.approx(error, abs=5e-5))
    whole = roc_auc(helped, scores)
    assert whole.value == found[0]
    assert whole.n == 43
    assert whole.low is not None
    assert whole.high is not None
    logits = [np.log(x / (1 - x)) for x in (whole.low, area, whole.high)]
    assert logits[1] - logits[0] == pytest.approx(logits[2] - logits[1], abs=1e-3)
    assert logits[2] - logits[1] == pytest.approx(1.96 * error / (area * (1 - area)), rel=1e-2)


@pytest.mark.parametrize(
    ("weights", "kappa", "error", "low", "high"),
    [("none", 0.3449, 0.0724, 0.2030, 0.4868), ("linear", 0.5082, 0.0655, 0.3798, 0.6366)],
)
def test_kappa_is_that_of_the_two_dermatologists(
    weights: Weights, kappa: float, error: float, low: float, high: float
) -> None:
    found = cohens_kappa(*cases(SKIN), weights)
    assert found[:4] == (*(pytest.approx(x, abs=5e-5) for x in (kappa, low, high)), 88)
    assert found.high is not None
    assert found.value is not None
    assert (found.high - found.value) / Z == pytest.approx(error, abs=5e-5)


def test_quadratic_kappa_is_lins_concordance() -> None:
    one, other = cases(SKIN)
    lin = (
        2 * np.cov(one, other, bias=True)[0, 1] / (one.var() + other.var() + (one.mean() - other.mean()) ** 2)
    )
    assert cohens_kappa(one, other, "quadratic").value == pytest.approx(lin)
    # Grades count by their distance, not by their place in the list of grades.
    far = np.where(other == 3, 30.0, other)
    assert cohens_kappa(one, far, "quadratic").value != pytest.approx(lin)


def test_tau_and_its_interval_are_those_of_the_table_of_incomes() -> None:
    found = kendall(*cases(SATISFACTION))
    assert found[:4] == (*(pytest.approx(x, abs=5e-5) for x in (0.1524, -0.0080, 0.3127)), 96)


@pytest.mark.parametrize(("hits", "n"), [(0, 5), (1, 7), (8, 10), (50, 100), (10, 10)])
def test_a_share_has_scipys_interval(hits: int, n: int) -> None:
    theirs = binomtest(hits, n).proportion_ci(method="wilson")
    assert share(hits, n) == (hits / n, pytest.approx(theirs.low), pytest.approx(theirs.high), n, None)


@pytest.mark.parametrize("levels", [2, 4, 1000])
@pytest.mark.parametrize("n", [5, 40, 301])
def test_values_are_scipys_with_and_without_ties(levels: int, n: int) -> None:
    draw = np.random.default_rng(n + levels)
    one = draw.integers(0, levels, n).astype(float)
    other = one + draw.integers(0, levels, n)
    one[:2], other[:3] = (0, 1), (0, 1, 1)
    assert kendall(one, other).value == pytest.approx(kendalltau(one, other).statistic)
    assert spearman(one, other).value == pytest.approx(spearmanr(one, other).statistic)
    labels = np.arange(n) % 3 == 0
    u = mannwhitneyu(other[labels], other[~labels]).statistic
    assert roc_auc(labels, other).value == pytest.approx(u / labels.sum() / (~labels).sum())


def test_a_partial_correlation_is_that_of_what_the_fixed_one_leaves() -> None:
    draw = np.random.default_rng(3)
    fixed = draw.normal(size=400)
    one, other = fixed + draw.normal(size=400), fixed + draw.normal(size=400)
    ranks = [np.argsort(np.argsort(x)).astype(float) for x in (one, other, fixed)]
    left = [x - np.polyval(np.polyfit(ranks[2], x, 1), ranks[2]) for x in ranks[:2]]
    found = spearman(one, other, fixed)
    assert found.value == pytest.approx(np.corrcoef(left[0], left[1])[0, 1])
    assert found.low is not None
    assert found.low < 0 < (spearman(one, other).low or 0)
    assert spearman(one, other, np.ones(400)).value == spearman(one, other).value


@pytest.mark.parametrize(
    ("measure", "truth"),
    [
        (lambda x, y: roc_auc(y > 0, x), 0.7602),  # the normal distribution's, of a shift by 1
        (kendall, 0.3333),  # 2 / pi * asin(1 / 2)
        (spearman, 0.4826),  # 6 / pi * asin(1 / 4)
        (lambda x, y: cohens_kappa(np.sign(x), np.sign(y)), 0.3333),
    ],
)
def test_nineteen_intervals_in_twenty_hold_the_truth(
    measure: Callable[[Floats, Floats], Estimate], truth: float
) -> None:
    draw, held = np.random.default_rng(11), 0
    for _ in range(600):
        y = draw.normal(size=60)
        if truth > 0.7:
            y = np.where(np.arange(60) < 30, 1.0, -1.0)
            x = draw.normal(size=60) + (y > 0)
        else:
            x = 0.5 * y + sqrt(0.75) * draw.normal(size=60)
        found = measure(x, y)
        assert found.low is not None
        assert found.high is not None
        held += found.low <= truth <= found.high
    assert 0.92 <= held / 600 <= 0.975


@pytest.mark.parametrize("n", [2, 4, 30])
def test_agreement_without_exception_is_no_certainty(n: int) -> None:
    labels = np.arange(2 * n) % 2 == 0
    found = [
        roc_auc(labels, labels.astype(float)),
        cohens_kappa(labels.astype(float), labels.astype(float)),
        kendall(np.arange(n), np.arange(n)),
        *([spearman(np.arange(n), np.arange(n))] if n > 3 else []),
    ]
    for one in found:
        assert one.value == pytest.approx(1.0)
        assert one.high == 1.0
        assert one.low is not None
        assert one.low < 0.95
    assert roc_auc(~labels, labels.astype(float))[:3] == (0.0, 0.0, 1 - (found[0].low or 0))
    assert kendall(np.arange(n), -np.arange(n))[:3] == (-1.0, -1.0, -(found[2].low or 0))


ONE = np.array([1.0])


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (roc_auc(np.array([], bool), np.array([])), "no case"),
        (roc_auc(np.array([True] * 3), np.arange(3.0)), "same label"),
        (cohens_kappa(ONE, ONE), "fewer than two"),
        (cohens_kappa(np.ones(9), np.ones(9)), "one grade"),
        (kendall(ONE, ONE), "fewer than two"),
        (kendall(np.arange(9.0), np.ones(9)), "same in all cases"),
        (spearman(np.arange(3.0), np.arange(3.0)), "fewer than 4"),
        (spearman(np.arange(9.0), np.ones(9)), "same in all cases"),
        (spearman(np.arange(9.0), np.arange(9.0) % 4, np.arange(9.0)), "explains one of the two wholly"),
        (share(0, 0), "no case"),
    ],
)
def test_what_has_no_value_says_why(found: Estimate, reason: str) -> None:
    assert found[:3] == (None, None, None)
    assert reason in (found.reason or "")


def test_a_value_without_an_interval_says_why() -> None:
    found = roc_auc(np.array([True, False, False]), np.array([2.0, 1.0, 3.0]))
    assert found == (0.5, None, None, 3, "one class has a single case, which has no variance")
    # A judge that gives one value to all has an area of its own: chance, exactly.
    assert roc_auc(np.array([True, True, False, False]), np.ones(4)) == (
        0.5,
        None,
        None,
        4,
        "all scores are the same",
    )


@pytest.mark.parametrize("measure", [kendall, spearman, cohens_kappa])
def test_what_cannot_be_compared(measure: Callable[[Floats, Floats], Estimate]) -> None:
    with pytest.raises(ValueError, match="same cases"):
        measure(np.zeros(3), np.zeros(4))
    with pytest.raises(ValueError, match="not finite"):
        measure(np.array([1.0, np.nan, 2]), np.arange(3.0))
    with pytest.raises(ValueError, match="not finite"):
        roc_auc(np.array([True, False]), np.array([np.inf, 0]))
    with pytest.raises(ValueError, match="not a share"):
        share(3, 2)
