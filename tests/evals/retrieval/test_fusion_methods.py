"""The methods of `fuse`, by sums that a reader can check."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from rag_assay.evals.retrieval.context import RetrievalContext
from rag_assay.evals.retrieval.fusion import (
    METHODS,
    NORMALISED,
    Arithmetic,
    Fuse,
    Geometric,
    Harmonic,
    Max,
    Method,
    RelativeScore,
    Weighted,
    fuse_rankings,
)
from rag_assay.evals.retrieval.query import Query, Trace
from rag_assay.evals.retrieval.ranking import Ranking, nothing
from rag_assay.evals.study.registry import read_retriever
from rag_assay.warehouse.errors import InputError
from tests.fakes.indexing import build_index, query, searched

# One arm scores rows 1, 2, 3 with 10, 6, 2; the other rows 2, 4 with 0.9, 0.1.
WORDS = Ranking(np.array([1, 2, 3]), np.array([10.0, 6.0, 2.0]))
VECTORS = Ranking(np.array([2, 4]), np.array([0.9, 0.1]))
ARMS: list[dict[str, Any]] = [{"bm25": {"k": 50}}, {"dense": {"k": 50}}]


def scores(
    method: Method, weights: tuple[float, ...] = (1, 1), arms: Any = (WORDS, VECTORS)
) -> dict[int, float]:
    found = fuse_rankings(arms, weights, method, 10)
    return dict(zip(found.rows.tolist(), found.scores.tolist(), strict=True))


def test_weighted_min_max() -> None:
    # Words: 1, 1/2, 0. Vectors: 1, 0; rows 1 and 3 are lacking there, row 4 in words: 0.
    assert scores(Weighted(), (0.4, 0.6)) == pytest.approx({2: 0.4 / 2 + 0.6, 1: 0.4, 3: 0, 4: 0})


def test_weighted_z_score() -> None:
    # Words: mean 6, deviation sqrt(32 / 3); vectors: mean 0.5, deviation 0.4. Lacking rows get the lowest z.
    high = 4 / np.sqrt(32 / 3)
    expected = {2: 0.4 * 0 + 0.6 * 1, 1: 0.4 * high - 0.6, 3: -0.4 * high - 0.6, 4: -0.4 * high - 0.6}
    assert scores(Weighted(normalise="z_score"), (0.4, 0.6)) == pytest.approx(expected)


def test_weighted_sum() -> None:
    # Words less their lowest: 8, 4, 0 of 12; vectors: 0.8, 0 of 0.8.
    expected = {1: 0.4 * 8 / 12, 2: 0.4 * 4 / 12 + 0.6, 3: 0, 4: 0}
    assert scores(Weighted(normalise="sum"), (0.4, 0.6)) == pytest.approx(expected)


def test_max() -> None:
    assert scores(Max(), (0.8, 0.6)) == pytest.approx({1: 0.8, 2: 0.6, 3: 0, 4: 0})


def test_an_arm_without_weight_has_no_opinion() -> None:
    # z of words: 1.22, 0, -1.22; rows that only the other arm found get its lowest, not the 0 of 0 * z.
    high = 4 / np.sqrt(32 / 3)
    expected = {1: high, 2: 0, 3: -high, 4: -high}
    assert scores(Max(normalise="z_score"), (1, 0)) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("normalise", NORMALISED)
@pytest.mark.parametrize(
    "given",
    [[1e-200, 1e-250, 0.0], [1e-320, 0.0], [3.0, 3.0 - 1e-15], [-1.0, -2.0, -5.0], [1e150, 1.0, -1e150]],
)
def test_any_scores_are_normalised_in_their_order(normalise: str, given: list[float]) -> None:
    """Recency's scores of documents half a year old are near 1e-200: their squares are 0 as floats."""
    found = NORMALISED[normalise](np.array(given))  # type: ignore[index]
    assert np.isfinite(found).all()
    assert (np.diff(found) <= 0).all()
    assert found[0] > found[-1]


def test_arithmetic_mean_and_relative_score() -> None:
    expected = {2: (3 * 0.5 + 1) / 4, 1: 3 / 4, 3: 0, 4: 0}
    assert scores(Arithmetic(), (3, 1)) == pytest.approx(expected)
    assert scores(RelativeScore(), (3, 1)) == pytest.approx(expected)


def test_geometric_mean() -> None:
    # A lacking row counts as 0.01, and so does the last one of an arm.
    expected = {2: np.sqrt(0.5), 1: np.sqrt(0.01), 3: 0.01, 4: 0.01}
    assert scores(Geometric(least=0.01)) == pytest.approx(expected)
    weighted = scores(Geometric(least=0.01), (3, 1))
    assert weighted[2] == pytest.approx((0.5**3 * 1) ** 0.25)


def test_harmonic_mean() -> None:
    expected = {2: 2 / (1 / 0.5 + 1), 1: 2 / (1 + 1 / 0.01), 3: 0.01, 4: 0.01}
    assert scores(Harmonic(least=0.01)) == pytest.approx(expected)
    assert scores(Harmonic(least=0.01), (3, 1))[2] == pytest.approx(4 / (3 / 0.5 + 1))


@pytest.mark.parametrize("method", [Weighted(), Max(), Arithmetic(), RelativeScore()])
def test_one_candidate_or_equal_scores_are_each_the_best(method: Method) -> None:
    level = Ranking(np.array([4, 7]), np.array([0.3, 0.3]))
    assert scores(method, (1, 1), (level, nothing()))[4] == scores(method, (1, 1), (level, nothing()))[7] > 0


@pytest.mark.parametrize("normalise", NORMALISED)
def test_empty_arms_give_nothing(normalise: str) -> None:
    method = Weighted.model_validate({"normalise": normalise})
    assert scores(method, (1, 1), (nothing(), nothing())) == {}
    one = scores(method, (1, 1), (WORDS, nothing()))
    assert one == pytest.approx(dict(zip([1, 2, 3], NORMALISED[method.normalise](WORDS.scores), strict=True)))


def test_equal_scores_go_by_chunk_id() -> None:
    arms = (Ranking(np.array([9, 2, 5]), np.array([3.0, 3.0, 1.0])), VECTORS)
    assert fuse_rankings(arms, (1, 0), Weighted(), 2).rows.tolist() == [2, 9]


@pytest.mark.parametrize("written", [{}, *[{name: {}} for name in METHODS]], ids=str)
def test_a_study_names_one_method_or_none(written: dict[str, Any], tmp_path: Path) -> None:
    index = build_index(tmp_path, ["ferry noon", "ferry quay ferry", "noon quay", "lamp"])
    recipe = read_retriever({"fuse": {**written, "of": ARMS, "weights": [0.3, 0.7]}})
    assert type(recipe.method).__name__.lower() == next(iter(written), "rrf").replace("_", "")
    assert Fuse.model_validate(recipe.model_dump()) == recipe
    assert set(recipe.model_dump()) == {next(iter(written), "rrf"), "of", "weights", "k"}
    trace = Trace()
    asked = query("ferry noon")
    found = searched(recipe, Query(asked.text, asked.vector, trace=trace), index)
    arms = recipe.open(index, RetrievalContext()).arms(asked)
    assert found.rows.tolist() == fuse_rankings(arms, (0.3, 0.7), recipe.method, 10).rows.tolist()
    assert [(noted.step, noted.kind) for noted in trace.steps] == [
        ("bm25", "arm"),
        ("dense", "arm"),
        ("fuse", "fuse"),
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rrf": {}, "max": {}}, "exactly one method"),
        ({"weights": [1]}, "2 retrievers need 2 weights, not 1"),
        ({"weights": [0, 0]}, "0.000001 or above"),
        ({"weights": [1e-320, 1e-320]}, "0.000001 or above"),
        ({"weights": [1e308, 1e308]}, "less than or equal to 1000000"),
        ({"weights": [float("nan"), 1]}, "finite"),
        ({"rrf": {"k": 1e300}}, "less than or equal to 10000"),
        ({"weights": [-1, 1]}, "greater than or equal to 0"),
        ({"weights": "best"}, "tuned"),
        ({"geometric": {"normalise": "z_score"}}, "'min_max' or 'sum'"),
        ({"weighted": {"normalize": "sum"}}, "Extra inputs"),
    ],
)
def test_a_wrong_fusion_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        read_retriever({"fuse": {**given, "of": ARMS}})


def test_tuned_weights_must_have_been_chosen(tmp_path: Path) -> None:
    index = build_index(tmp_path, ["ferry noon", "ferry quay"])
    recipe = read_retriever({"fuse": {"of": ARMS, "weights": "tuned", "max": {}}})
    with pytest.raises(InputError, match="train question set"):
        searched(recipe, query("ferry"), index)
    chosen = recipe.with_weights([0.25, 0.75])
    assert chosen.weights == (0.25, 0.75)
    assert len(searched(chosen, query("ferry"), index)) == 2
    with pytest.raises(ValidationError, match="2 retrievers need 2 weights, not 3"):
        recipe.with_weights([1, 1, 1])
