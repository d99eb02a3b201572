from __future__ import annotations

import numpy as np
import pytest

from evals.retrieving.contract import Ranking
from evals.retrieving.cutting import Adaptive, Threshold, Top
from evals.retrieving.index import OpenIndex
from tests.fakes.indexing import build_index, query


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> OpenIndex:
    return build_index(tmp_path_factory.mktemp("index"), ["a"])  # no step here looks into it


def kept(step: Top | Threshold | Adaptive, scores: list[float], index: OpenIndex) -> int:
    ranking = Ranking(np.arange(len(scores)), np.array(scores, np.float64))
    found = step.apply(ranking, query("?"), index)
    assert found.rows.tolist() == list(range(len(found)))
    return len(found)


@pytest.mark.parametrize(
    ("step", "scores", "expected"),
    [
        (Top(k=2), [3, 2, 1], 2),
        (Top(k=5), [3, 2, 1], 3),
        (Threshold(at_least=0.5), [8, 4, 3.9], 2),
        (Threshold(at_least=0.5, of="absolute"), [0.9, 0.5, 0.49], 2),
        (Threshold(at_least=0.5, of="absolute"), [0.4], 0),
        (Threshold(), [-1, -1, -2], 2),  # a share of a negative score would leave nothing
        (Threshold(), [0, 0, -2], 2),
        (Adaptive(), [10, 9.5, 9, 2, 1.8, 1.5], 3),
        (Adaptive(), [10, 2, 1.9], 1),
        (Adaptive(min=2), [10, 2, 1.9], 2),
        (Adaptive(min=2), [10, 2, 2, 1], 3),  # equal scores stay together
        (Adaptive(max=2), [10, 9.9, 1], 1),
        (Adaptive(), [5, 5, 5], 3),
        (Adaptive(), [5], 1),
        (Adaptive(method="curvature"), [10, 9.5, 9, 2, 1.8, 1.5], 3),
        (Adaptive(method="curvature"), [10, 3, 2.9, 2.8, 2.7], 1),
        (Adaptive(method="curvature"), [4, 3, 2, 1], 4),  # a straight line bends nowhere
        (Adaptive(method="curvature"), [4, 1], 2),
    ],
)
def test_by_hand(
    step: Top | Threshold | Adaptive, scores: list[float], expected: int, index: OpenIndex
) -> None:
    assert kept(step, scores, index) == expected


def test_a_cut_keeps_a_reading_order(index: OpenIndex) -> None:
    """After a step that sets another order, a cut goes by the scores and leaves the order alone."""
    ranking = Ranking(np.array([0, 1, 2, 3]), np.array([9.0, 1.0, 1.2, 8.0]))
    assert Adaptive().apply(ranking, query("?"), index).rows.tolist() == [0, 3]
    assert Threshold().apply(ranking, query("?"), index).rows.tolist() == [0, 3]
    assert Top(k=2).apply(ranking, query("?"), index).rows.tolist() == [0, 1]
