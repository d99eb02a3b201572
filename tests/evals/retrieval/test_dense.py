from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError

from rag_assay.assets.indexing.index_recipe import IndexRecipe
from rag_assay.evals.retrieval.clock import Clock
from rag_assay.evals.retrieval.context import RetrievalContext
from rag_assay.evals.retrieval.dense import Dense
from rag_assay.evals.retrieval.fusion import Fuse
from rag_assay.evals.retrieval.hybrid import Hybrid
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.query import Query
from rag_assay.evals.retrieval.query_runner import QueryRunner
from rag_assay.evals.retrieval.query_vectors import QueryVector
from rag_assay.evals.retrieval.ranking import Ranking
from rag_assay.warehouse.status import Status
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


COUNT, PARTITIONS, WIDE = 1_200, 4, 16  # fewer than 256 chunks make no partition of their own


def spread(kind: str, folder: Path, count: int = COUNT) -> OpenIndex:
    chance = np.random.default_rng(3)
    vectors = [unit(*chance.normal(size=WIDE)) for _ in range(count)]
    recipe = IndexRecipe.model_validate({"search": kind, "partitions": PARTITIONS, "ef_construction": 60})
    return build_index(folder, [f"text {number}" for number in range(count)], vectors, recipe=recipe)


@pytest.fixture(scope="module")
def quantised(tmp_path_factory: pytest.TempPathFactory) -> OpenIndex:
    return spread("ivf_pq", tmp_path_factory.mktemp("index"))


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> OpenIndex:
    return spread("hnsw", tmp_path_factory.mktemp("index"))


def asked(number: int) -> Query:
    return Query("q", unit(*np.random.default_rng(100 + number).normal(size=WIDE)))


def test_all_partitions_leave_nothing_out(quantised: OpenIndex, graphs: OpenIndex) -> None:
    every = Dense(k=COUNT, search="ann", nprobes=PARTITIONS)
    thorough = Dense(k=10, search="ann", nprobes=PARTITIONS, ef=COUNT, refine_factor=20)
    for number in range(5):
        for index, recipe in ((quantised, every), (graphs, thorough)):
            found = searched(recipe, asked(number), index)
            exact = searched(Dense(k=recipe.k, search="exact"), asked(number), index)
            assert found.rows.tolist() == exact.rows.tolist()
            assert found.scores.tolist() == exact.scores.tolist(), "bit by bit"


def test_fewer_probes_look_at_fewer_chunks(quantised: OpenIndex) -> None:
    seen = [
        set(searched(Dense(k=COUNT, nprobes=probes), asked(0), quantised).rows.tolist())
        for probes in range(1, PARTITIONS + 1)
    ]
    assert all(fewer < more for fewer, more in pairwise(seen)), "nearest partitions first"
    assert len(seen[-1]) == COUNT


def test_what_is_not_said_is_what_the_index_was_tuned_to(graphs: OpenIndex) -> None:
    tuned = graphs.facts.search
    assert Dense().on(tuned) == tuned
    said = Dense(nprobes=2).on(tuned)
    assert (said.nprobes, said.ef, said.refine_factor) == (2, tuned.ef, tuned.refine_factor)
    same = Dense(nprobes=tuned.nprobes, ef=tuned.ef, refine_factor=tuned.refine_factor)
    for number in range(5):
        found = [searched(one, asked(number), graphs).rows.tolist() for one in (Dense(), same)]
        assert found[0] == found[1]


@pytest.mark.parametrize("said", [{"nprobes": 4}, {"ef": 100}, {"refine_factor": 2}])
def test_an_exact_search_is_refused_the_parameters_of_another(said: dict[str, int], tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="`search: exact` compares every chunk"):
        Dense.model_validate({"search": "exact", **said})
    (name, value), *_ = said.items()
    index = build_index(tmp_path, ["a", "b"], [unit(1, 0), unit(3, 4)])
    with pytest.raises(ValueError, match=f"`{name}: {value}` means nothing to an index that has no approx"):
        searched(Dense.model_validate(said), Query("q", unit(1, 0)), index)


@pytest.mark.parametrize("said", [{"nprobes": 0}, {"ef": 9}, {"refine_factor": 1_001}, {"nprobes": True}])
def test_bounds_are_those_of_the_index(said: dict[str, Any]) -> None:
    for recipe in (Dense, IndexRecipe):
        with pytest.raises(ValidationError):
            recipe.model_validate(said)


def test_candidates_of_a_graph_mean_nothing_without_graphs(quantised: OpenIndex) -> None:
    query = asked(0)
    assert query.vector is not None
    recipe, clock = Dense(ef=200, nprobes=2), Clock()
    runner = QueryRunner(
        recipe.open(quantised, RetrievalContext()), quantised, {"q": QueryVector(query.vector)}, clock
    )
    question = pl.DataFrame({"question_id": ["1"], "question": ["q"], "asked_at": [None]})
    result = runner.ask(question.row(0, named=True))
    assert result.status == Status.ERROR
    assert result.reason is not None
    assert "`ef: 200` means nothing to an index that has no graphs (`ivf_pq`)" in result.reason


def test_what_was_never_said_is_in_no_identity() -> None:
    arms: list[dict[str, Any]] = [{"bm25": {}}, {"dense": {}}]
    for recipe in (Dense(), Hybrid(), Fuse.model_validate({"of": arms})):
        assert "nprobes" not in recipe.model_dump_json()
    assert Dense(nprobes=None).identity() == Dense().identity()
    wider = [Dense(nprobes=8), Dense(ef=200), Dense(refine_factor=2), Dense()]
    assert len({one.identity() for one in wider}) == 4
    assert len({Hybrid(dense=one).identity() for one in wider}) == 4
    read = Hybrid.model_validate_json(Hybrid(dense=Dense(nprobes=8)).model_dump_json())
    assert read.dense.nprobes == 8
