from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rag_assay.evals.retrieval.graph import Graph
from rag_assay.evals.retrieval.ranking import Ranking
from tests.fakes.indexing import applied, build_index, query


def at(*degrees: float) -> list[np.ndarray]:
    return [np.array([np.cos(np.radians(d)), np.sin(np.radians(d))], np.float32) for d in degrees]


def test_a_walk_by_hand(tmp_path: Path) -> None:
    """1 and 2 are neighbours, 0 stands alone: r1 = (1-s) p1 + s r2, r2 = (1-s) p2 + s r1, r0 = p0."""
    index = build_index(tmp_path, ["a", "b", "c"], at(90, 0, 1))
    step = Graph(similarity=0.9, percentile=0, spread=0.5)
    given = Ranking(np.array([0, 1, 2]), np.array([5.0, 4.0, 1.0]))
    found = applied(step, given, query("?"), index)
    assert found.rows.tolist() == [0, 1, 2]
    assert found.scores == pytest.approx([0.5, (0.4 + 0.5 * 0.1) / 1.5, (0.1 + 0.5 * 0.4) / 1.5])


@pytest.mark.parametrize("seed", range(6))
def test_the_walk_ends_where_linear_algebra_says(tmp_path: Path, seed: int) -> None:
    """r = (1 - s) (I - s W)^-1 p, over the pairs that are alike enough and in the upper tenth of all."""
    chance = np.random.default_rng(seed)
    n = 24
    vectors = chance.normal(size=(n, 3))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    index = build_index(tmp_path, [f"t{number}" for number in range(n)], list(vectors.astype(np.float32)))
    given = Ranking(np.arange(n), np.sort(chance.random(n) - 0.3)[::-1])
    spread, similarity = 0.6, 0.8 if seed % 2 else 0.99
    found = applied(Graph(similarity=similarity, percentile=90, spread=spread), given, query("?"), index)
    pairs = {(i, j): float(vectors[i] @ vectors[j]) for i in range(n) for j in range(i)}
    ranked = sorted(pairs.values())
    bound = max(similarity, ranked[int(np.ceil(0.9 * (len(ranked) - 1)))])  # the next higher of two
    weights = np.zeros((n, n))
    for (i, j), cosine in pairs.items():
        if cosine >= bound - 1e-6:
            weights[i, j] = weights[j, i] = cosine
    for alone in np.flatnonzero(weights.sum(axis=0) == 0):
        weights[alone, alone] = 1
    start = given.scores - given.scores.min()
    expected = (1 - spread) * np.linalg.solve(
        np.eye(n) - spread * weights / weights.sum(axis=0), start / start.sum()
    )
    scores = dict(zip(found.rows.tolist(), found.scores.tolist(), strict=True))
    assert [scores[row] for row in range(n)] == pytest.approx(expected, abs=1e-5)
    assert (weights > 0).sum() > 0


def test_neighbours_lift_each_other_over_one_that_stands_alone(tmp_path: Path) -> None:
    index = build_index(tmp_path, list("abcd"), at(0, 90, 91, 89.5))
    given = Ranking(np.arange(4), np.array([3.0, 2.9, 0.5, 0.5]))
    found = applied(Graph(percentile=0, spread=0.8), given, query("?"), index)
    assert found.rows.tolist() != [0, 1, 2, 3]
    assert set(found.rows.tolist()) == {0, 1, 2, 3}
    assert found.scores.sum() == pytest.approx(1)


def test_only_the_upper_part_of_the_pairs_are_neighbours(tmp_path: Path) -> None:
    """Of six pairs the nearest one is above the 90th percentile; without it all would be."""
    index = build_index(tmp_path, list("abcd"), at(0, 4, 9, 10))
    given = Ranking(np.arange(4), np.array([4.0, 1.0, 3.0, 0.0]))
    shares = np.array([0.5, 0.125, 0.375, 0.0])
    found = applied(Graph(spread=0.5), given, query("?"), index)
    scores = dict(zip(found.rows.tolist(), found.scores.tolist(), strict=True))
    assert scores[0] == pytest.approx(shares[0])
    assert scores[1] == pytest.approx(shares[1])
    assert scores[2] == pytest.approx(shares[2] / 1.5)
    assert scores[3] == pytest.approx(shares[2] * 0.5 / 1.5)


def test_near_chunks_are_added_as_far_as_they_are_allowed(tmp_path: Path) -> None:
    index = build_index(tmp_path, list("abcde"), at(0, 2, 3, 60, 4))
    given = Ranking(np.array([0, 3]), np.array([2.0, 1.0]))
    step = Graph(percentile=0, add=2)
    assert set(applied(step, given, query("?"), index).rows.tolist()) == {0, 3, 1, 2}
    from dataclasses import replace

    some = replace(query("?"), allowed=np.array([True, False, False, True, True]))
    assert set(applied(step, given, some, index).rows.tolist()) == {0, 3, 4}
    assert len(applied(Graph(percentile=0, add=2, similarity=0.99999), given, query("?"), index)) == 2
