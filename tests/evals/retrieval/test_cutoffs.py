from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.passage_steps import Adaptive, Threshold, Top
from rag_assay.evals.retrieval.ranking import Ranking
from tests.fakes.indexing import applied, build_index, query


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> OpenIndex:
    return build_index(tmp_path_factory.mktemp("index"), ["a"])  # no step here looks into it


def kept(step: Top | Threshold | Adaptive, scores: list[float], index: OpenIndex) -> int:
    ranking = Ranking(np.arange(len(scores)), np.array(scores, np.float64))
    found = applied(step, ranking, query("?"), index)
    assert found.rows.tolist() == list(range(len(found)))
    return len(found)


STEEPEST = Adaptive(method="steepest", min=1)
EVERY: tuple[Top | Threshold | Adaptive, ...] = (
    *(Top(), Threshold(), Threshold(of="absolute"), Adaptive(), STEEPEST, Adaptive(min=1)),
)


def is_absolute(step: Top | Threshold | Adaptive) -> bool:
    return isinstance(step, Threshold) and step.of == "absolute"


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
        (STEEPEST, [10, 9.5, 9, 2, 1.8, 1.5], 3),
        (STEEPEST, [10, 2, 1.9], 1),
        (Adaptive(method="steepest", min=2), [10, 2, 1.9], 2),
        (Adaptive(method="steepest", min=2), [10, 2, 2, 1], 3),  # equal scores stay together
        (Adaptive(method="steepest", min=1, max=2), [10, 9.9, 1], 1),
        (STEEPEST, [5, 5, 5], 3),
        (STEEPEST, [5], 1),
        (Adaptive(min=1), [10, 9.5, 9, 2, 1.8, 1.5], 3),
        (Adaptive(min=1), [10, 3, 2.9, 2.8, 2.7], 1),
        (Adaptive(min=1), [4, 3, 2, 1], 4),  # a straight line bends nowhere
        (Adaptive(min=1), [4, 1], 2),
        # What the numbers say, not what their floats do: 0.1 * 3 and 0.2 - 0.1 are a little too large.
        (Threshold(at_least=0.1), [3, 0.3, 0.29], 2),
        (STEEPEST, [0.3, 0.2, 0.1], 1),
        (STEEPEST, [0.4, 0.3, 0.2, 0.1], 1),
        (Adaptive(method="steepest", min=3, max=3), [4, 3, 2, 1], 3),
        (STEEPEST, [-1, -1.5, -9], 2),
        # At places 0, 1/3, 2/3, 1 the scores 1, 1/8, 1/16, 0: y' = -1.406, -0.188 and y'' = 7.31, 0.
        (Adaptive(min=1), [16, 2, 1, 0], 1),
        # By default ten are kept at least, and where `max` is less, so many.
        (Adaptive(), [10, 2, 1.9], 3),
        (Adaptive(), [10, 3, *(2.9 - n / 10 for n in range(18))], 10),
        (Adaptive(method="steepest"), [*(90.0 - n for n in range(12)), 2, 1], 12),
        (Adaptive(max=2), [10, 9.9, 1], 2),
        *((step, [], 0) for step in EVERY),
        *(
            (step, [score], 1)
            for step in EVERY
            for score in (0.7, 0.0, -2.0)
            if score > 0 or not is_absolute(step)
        ),
        *((step, [0.7, 0.7], 2) for step in EVERY),
        *((step, [0.0, 0.0, 0.0], 3) for step in EVERY if not is_absolute(step)),
    ],
)
def test_by_hand(
    step: Top | Threshold | Adaptive, scores: list[float], expected: int, index: OpenIndex
) -> None:
    assert kept(step, scores, index) == expected


def test_a_cut_keeps_a_reading_order(index: OpenIndex) -> None:
    """After a step that sets another order, a cut goes by the scores and leaves the order alone."""
    ranking = Ranking(np.array([0, 1, 2, 3]), np.array([9.0, 1.0, 1.2, 8.0]))
    assert applied(STEEPEST, ranking, query("?"), index).rows.tolist() == [0, 3]
    assert applied(Threshold(at_least=0.5), ranking, query("?"), index).rows.tolist() == [0, 3]
    assert applied(Top(k=2), ranking, query("?"), index).rows.tolist() == [0, 1]


def test_a_cut_that_could_keep_nothing_right_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"min \(20\) must not be larger than max \(10\)"):
        Adaptive(min=20, max=10)
    for outside in (0, 1, -0.5, float("nan")):
        with pytest.raises(ValidationError):
            Threshold(at_least=outside)


@given(
    scores=st.lists(st.integers(-50, 50), max_size=30).map(lambda found: sorted(found, reverse=True)),
    scale=st.sampled_from([1.0, 0.1, 1 / 3, 1e-6, 1e6]),
    step=st.sampled_from([*EVERY, Adaptive(min=3), Adaptive(method="curvature", min=2, max=7)]),
)
@settings(deadline=None, derandomize=True)
def test_what_is_kept_is_the_beginning_whatever_the_unit_of_the_scores(
    scores: list[int], scale: float, step: Top | Threshold | Adaptive, index: OpenIndex
) -> None:
    found = kept(step, [score * scale for score in scores], index)
    if not is_absolute(step):
        assert found == kept(step, scores, index)
    if isinstance(step, Adaptive):
        assert min(step.least, len(scores)) <= found <= step.max
        inside = found < min(len(scores), step.max)
        assert not inside or scores[found - 1] > scores[found], "equal scores stay together"
