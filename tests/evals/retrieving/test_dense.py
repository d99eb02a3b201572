from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from evals.retrieving.dense import Dense
from evals.retrieving.query import Query
from evals.retrieving.ranking import Ranking
from tests.fakes.indexing import build_index, searched


def unit(*values: float) -> np.ndarray:
    vector = np.array(values, np.float32)
    return vector / np.linalg.norm(vector)


def test_cosines_by_hand(tmp_path: Path) -> None:
    index = build_index(tmp_path, ["a", "b", "c"], [unit(1, 0), unit(3, 4), unit(-1, 0)])
    found = searched(Dense(k=2), Query("q", unit(1, 0)), index)
    assert found.rows.tolist() == [0, 1]
    assert found.scores == pytest.approx([1, 0.6], abs=1e-6)


@pytest.mark.parametrize("dimensions", [3, 24, 384])
@pytest.mark.parametrize("n", [7, 50, 101])
def test_equal_vectors_tie_exactly(tmp_path: Path, n: int, dimensions: int) -> None:
    chance = np.random.default_rng(n * dimensions)
    same, asked = (unit(*chance.normal(size=dimensions)) for _ in range(2))
    index = build_index(tmp_path, ["text"] * n, [same] * n)
    found = searched(Dense(k=5), Query("q", asked), index)
    assert len(set(found.scores.tolist())) == 1
    assert found.rows.tolist() == [0, 1, 2, 3, 4]


def test_a_question_without_its_vector_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="needs the question's vector"):
        searched(Dense(), Query("q"), build_index(tmp_path, ["a"]))


def test_the_best_k_are_those_of_a_full_sort() -> None:
    chance = np.random.default_rng(5)
    scores = chance.integers(0, 6, size=500).astype(np.float64)  # many ties at every cut
    rows = chance.permutation(500)
    full = sorted(zip(-scores, rows, strict=True))
    for k in (1, 7, 100, 499, 500, 900):
        best = Ranking.best(rows, scores, k)
        assert list(zip(-best.scores, best.rows, strict=True)) == full[:k]
