"""Clusters: by shared documents, by names, what they count for, and what clustering does to the bootstrap."""

from __future__ import annotations

import numpy as np
import pytest

from rag_assay.evals.statistics.clusters import by_documents, codes, effective, sum_clusters
from rag_assay.evals.statistics.resampling import student, sums_of
from rag_assay.evals.statistics.significance import ALPHA, paired_bootstrap


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        ([], []),
        ([[], [], []], [0, 1, 2]),
        ([["a"], ["a"], ["a"]], [0, 0, 0]),
        ([["a", "b"], ["c"], ["b", "c"]], [0, 0, 0]),  # the third joins the first two
        ([["c"], ["a"], ["b"], ["a", "c"]], [0, 0, 1, 0]),
        ([["a", "a"], ["b"]], [0, 1]),
    ],
)
def test_questions_that_share_documents(documents: list[list[str]], expected: list[int]) -> None:
    assert by_documents(documents).tolist() == expected


def test_the_order_of_questions_and_documents_does_not_matter() -> None:
    chance = np.random.default_rng(3)
    documents = [list(chance.integers(0, 60, size=2).astype(str)) for _ in range(50)]
    found, order = by_documents(documents), chance.permutation(50)
    again = by_documents([documents[at][::-1] for at in order])
    together = found[order][:, None] == found[order][None, :]
    assert ((again[:, None] == again[None, :]) == together).all()


def test_sums_and_what_clusters_count_for() -> None:
    table = np.arange(8.0).reshape(4, 2)
    assert sum_clusters(table, None) is table
    assert sum_clusters(table, codes(["x", "y", "x", "y"])).tolist() == [[4, 6], [8, 10]]
    assert sum_clusters(np.zeros((0, 3)), codes([])).shape == (0, 3)
    assert effective(codes(["x"] * 9)) == 1
    assert effective(codes([*"xxxxxxxxxx", *range(10)])) == pytest.approx(400 / 110)
    assert effective(codes([])) == 0


def clustered(seed: int, sizes: list[int], columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Return differences of mean 0 whose clusters share half of their variance, and the clusters."""
    chance = np.random.default_rng(seed)
    clusters = np.repeat(np.arange(len(sizes)), sizes)
    shared = chance.normal(size=(len(sizes), columns))[clusters]
    return shared + chance.normal(size=(len(clusters), columns)), clusters


def test_the_standard_error_is_that_of_a_regression_on_a_constant() -> None:
    """sqrt(G / (G - 1) * sum of squared sums of residuals) / n, written out."""
    values = np.array([1.0, 2.0, 4.0, 3.0, 8.0, 5.0, 6.0, 2.0, 9.0])[:, None]
    groups = np.array([0, 0, 0, 1, 1, 2, 3, 3, 4])
    sums = sums_of(values, groups)
    error, _ = student(sums.mean, (sums.residual**2).sum(axis=0), sums.total, sums.groups)
    residuals = values.ravel() - values.mean()
    expected = np.sqrt(5 / 4 * sum(residuals[groups == at].sum() ** 2 for at in range(5))) / 9
    assert error[0] == pytest.approx(expected)
    assert paired_bootstrap(values, 7, 500, groups).error[0] == pytest.approx(expected)


def test_clusters_of_one_are_questions() -> None:
    columns = np.random.default_rng(1).normal(0.2, 1, size=(40, 3))
    columns[3, 1] = np.nan
    one, other = paired_bootstrap(columns, 7), paired_bootstrap(columns, 7, clusters=np.arange(40))
    for mine, theirs in zip(one, other, strict=True):
        assert mine == pytest.approx(theirs)


def slow(column: np.ndarray, clusters: np.ndarray, seed: int, resamples: int) -> float:
    """Draw clusters one by one, as the definition reads."""
    chance, count = np.random.default_rng(seed), int(clusters.max()) + 1

    def t(values: np.ndarray, groups: list[np.ndarray], around: float) -> float:
        spread = sum((group - values.mean()).sum() ** 2 for group in groups)
        error = np.sqrt(spread * len(groups) / (len(groups) - 1)) / len(values)
        return abs(values.mean() - around) / error

    groups = [column[clusters == at] for at in range(count)]
    seen, reached = t(column, groups, 0.0), 0
    for _ in range(resamples):
        drawn = [groups[at] for at in chance.integers(0, count, count)]
        reached += t(np.concatenate(drawn), drawn, column.mean()) >= seen
    return (reached + 1) / (resamples + 1)


def test_the_clustered_bootstrap_is_its_definition() -> None:
    columns, clusters = clustered(5, [1, 2, 3, 4, 5] * 5, 3)
    columns += [0.0, 0.3, 0.5]
    found = paired_bootstrap(columns, 7, 3_000, clusters)
    expected = [slow(columns[:, at], clusters, 11, 3_000) for at in range(3)]
    assert found.p == pytest.approx(expected, abs=0.03)


def test_without_clusters_too_much_is_told_apart_and_with_them_one_in_twenty() -> None:
    columns, clusters = clustered(2, [1, 2, 4, 8] * 12, 1_000)
    plain = paired_bootstrap(columns, 7, 600).p < ALPHA
    right = paired_bootstrap(columns, 7, 600, clusters).p < ALPHA
    assert plain.mean() > 0.15
    assert right.mean() == pytest.approx(ALPHA, abs=0.025)


def test_one_cluster_tells_nothing() -> None:
    columns = np.random.default_rng(1).normal(5, 1, size=(40, 1))
    found = paired_bootstrap(columns, 7, clusters=np.zeros(40, np.int64))
    assert found.p.tolist() == [1.0]
    assert np.isnan([found.low[0], found.high[0], found.error[0]]).all()
    assert found.mean[0] == pytest.approx(columns.mean())


def test_gaps_within_clusters() -> None:
    columns, clusters = clustered(5, [3] * 30, 1)
    gappy = np.where(np.arange(90)[:, None] % 3 == 2, np.nan, columns)
    kept = np.arange(90) % 3 != 2
    one = paired_bootstrap(gappy, 7, 2_000, clusters)
    other = paired_bootstrap(columns[kept], 7, 2_000, clusters[kept])
    assert one.mean == pytest.approx(other.mean)
    assert one.low == pytest.approx(other.low)
    assert one.p == pytest.approx(other.p)
