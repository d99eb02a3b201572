"""Reciprocal rank fusion, by sums that a reader can check."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rag_assay.evals.retrieval.fusion import Geometric, Harmonic, Method, Rrf, Weighted
from rag_assay.evals.retrieval.fusion import fuse_rankings as fused_by
from rag_assay.evals.retrieval.ranking import Ranking, nothing
from rag_assay.evals.study.registry import read_retriever
from tests.fakes.indexing import build_index, query, searched


def ranking(*rows: int) -> Ranking:
    return Ranking(np.array(rows, np.int64), -np.arange(len(rows), dtype=np.float64))


def fused(
    arms: list[Ranking], weights: tuple[float, ...], constant: float = 60, k: int = 10
) -> dict[int, float]:
    found = fused_by(arms, weights, Rrf(k=constant), k)
    return dict(zip(found.rows.tolist(), found.scores.tolist(), strict=True))


def test_rrf_by_hand() -> None:
    found = fused([ranking(7, 3, 5), ranking(5, 7)], (1, 1))
    assert found == pytest.approx({7: 1 / 61 + 1 / 62, 5: 1 / 63 + 1 / 61, 3: 1 / 62})
    assert list(found) == [7, 5, 3]


def test_weights_by_hand() -> None:
    found = fused([ranking(1, 2), ranking(2, 3)], (0.5, 2.0), constant=1)
    assert found == pytest.approx({2: 0.5 / 3 + 2 / 2, 3: 2 / 3, 1: 0.5 / 2})
    assert list(found) == [2, 3, 1]


def test_a_large_constant_levels_the_ranks() -> None:
    arms = [ranking(1, 2, 3), ranking(9, 8, 3)]
    assert next(iter(fused(arms, (1, 1), constant=0.1))) == 1  # a first place counts most
    assert next(iter(fused(arms, (1, 1), constant=1000))) == 3  # being in both counts most


@pytest.mark.parametrize("method", [Rrf(), Weighted(), Weighted(normalise="sum"), Geometric(), Harmonic()])
def test_the_order_of_the_arms_changes_nothing(method: Method) -> None:
    """Sums of the same three numbers are not the same float in every order."""
    chance = np.random.default_rng(4)
    for _ in range(20):
        arms = [ranking(*chance.permutation(60)[:40].tolist()) for _ in range(4)]
        first = fused_by(arms, (1, 1, 1, 1), method, 60)
        for order in ((3, 2, 1, 0), (1, 3, 0, 2)):
            again = fused_by([arms[place] for place in order], (1, 1, 1, 1), method, 60)
            assert again.rows.tolist() == first.rows.tolist()


def test_equal_sums_tie_by_chunk_id_as_fractions_say() -> None:
    """Each of six rows stands once at each of the ranks a, b and c: all sums are equal, as fractions."""
    unequal = 0
    for a, b, c in combinations(range(1, 40, 3), 3):
        arms = [(a, b, c, a, b, c), (b, c, a, c, a, b), (c, a, b, b, c, a)]
        floats = {sum(1 / (60 + arm[row]) for arm in arms) for row in range(6)}
        exact = {sum((Fraction(1, 60 + arm[row]) for arm in arms), Fraction()) for row in range(6)}
        assert len(exact) == 1
        unequal += len(floats) > 1
        points = np.array([[1 / (60 + arm[row]) for arm in arms] for row in range(6)])
        assert len(set(Rrf().scores(points, np.ones((1, 3)))[:, 0].tolist())) == 1
    assert unequal, "or this test shows nothing"


def test_ties_go_by_chunk_id_and_k_cuts() -> None:
    assert list(fused([ranking(9), ranking(4)], (1, 1), k=1)) == [4]


def test_an_empty_arm_adds_nothing() -> None:
    assert fused([ranking(2), nothing()], (1, 1)) == pytest.approx({2: 1 / 61})
    assert fused([nothing(), nothing()], (1, 1)) == {}


def test_a_fusion_in_a_study_is_that_of_its_arms(tmp_path: Path) -> None:
    index = build_index(tmp_path, ["ferry noon", "ferry quay ferry", "noon quay", "lamp"])
    arms = [{"bm25": {"k": 2}}, {"dense": {"k": 3}}]
    recipe = read_retriever({"fuse": {"of": arms, "weights": [1, 0.5], "rrf": {"k": 10}}})
    asked = query("ferry noon")
    alone = [searched(read_retriever(arm), asked, index) for arm in arms]
    expected: dict[int, float] = {}
    for weight, arm in zip((1, 0.5), alone, strict=True):
        for rank, row in enumerate(arm.rows.tolist(), 1):
            expected[row] = expected.get(row, 0) + weight / (10 + rank)
    found = searched(recipe, asked, index)
    assert dict(zip(found.rows.tolist(), found.scores.tolist(), strict=True)) == pytest.approx(expected)


def test_a_fusion_needs_a_vector_when_an_arm_does() -> None:
    lexical: dict[str, Any] = {"fuse": {"of": [{"bm25": {}}, {"fulltext": {}}]}}
    nested: dict[str, Any] = {
        "fuse": {"of": [{"bm25": {}}, {"fuse": {"of": [{"fulltext": {}}, {"dense": {}}]}}]}
    }
    assert not read_retriever(lexical).needs_vector
    assert read_retriever(nested).needs_vector


def test_the_identity_follows_the_code_of_the_arms(monkeypatch: pytest.MonkeyPatch) -> None:
    from rag_assay.evals.retrieval.dense import Dense

    recipe = read_retriever({"fuse": {"of": [{"bm25": {}}, {"dense": {}}]}})
    before = recipe.identity()
    assert before == read_retriever({"fuse": {"of": [{"bm25": {"k": 10}}, {"dense": {}}]}}).identity()
    monkeypatch.setattr(Dense, "code_version", "changed")
    assert recipe.identity() != before
