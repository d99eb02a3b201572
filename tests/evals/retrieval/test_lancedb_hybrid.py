"""The ranking is the one that LanceDB's own hybrid search gives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rag_assay.evals.retrieval.dense import Dense
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.lancedb_hybrid import LanceHybrid
from tests.fakes.indexing import build_index, query, searched

WORDS = ("ferry", "quay", "noon", "ticket", "lamp", "keeper", "storm", "harbour", "winter", "oil")


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> OpenIndex:
    chance = np.random.default_rng(3)  # texts of many lengths, so that hardly any scores tie
    texts = [" ".join(chance.choice(WORDS, size=n % 37 + 3)) for n in range(60)]
    return build_index(tmp_path_factory.mktemp("index"), texts)


def lancedb_says(index: OpenIndex, text: str, reranker: Any) -> dict[str, float]:
    search = index.table.search(query_type="hybrid", vector_column_name="vector", fts_columns="text")
    search = search.vector(query(text).vector).text(text).distance_type("cosine").rerank(reranker)
    found = search.limit(100).to_arrow()
    return dict(zip(found["chunk_id"].to_pylist(), found["_relevance_score"].to_pylist(), strict=True))


@pytest.mark.parametrize("text", ["ferry quay", "winter storm lamp", "oil"])
def test_rrf_is_lancedbs(index: OpenIndex, text: str) -> None:
    from lancedb.rerankers import RRFReranker

    found = searched(LanceHybrid(k=100), query(text), index)
    expected = lancedb_says(index, text, RRFReranker(K=60, return_score="all"))
    ids = index.chunks["chunk_id"].gather(found.rows).to_list()
    assert set(ids) == set(expected)
    # A tie that LanceDB orders otherwise moves a rank by one: 1/61 - 1/62 is 0.00026.
    assert found.scores == pytest.approx([expected[chunk] for chunk in ids], abs=3e-4)
    assert [abs(a - expected[c]) < 1e-6 for a, c in zip(found.scores, ids, strict=True)].count(True) > 45


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_the_linear_combination_is_lancedbs(index: OpenIndex, weight: float) -> None:
    from lancedb.rerankers import LinearCombinationReranker

    found = searched(LanceHybrid(k=100, reranker="linear", weight=weight), query("winter storm lamp"), index)
    reranker = LinearCombinationReranker(weight=weight, return_score="all")
    expected = lancedb_says(index, "winter storm lamp", reranker)
    ids = index.chunks["chunk_id"].gather(found.rows).to_list()
    assert set(ids) == set(expected)
    assert found.scores == pytest.approx([expected[chunk] for chunk in ids], abs=1e-5)


@pytest.mark.parametrize("weight", [None, 0.0, 0.3, 1.0])
def test_the_mean_reciprocal_rank_is_lancedbs(index: OpenIndex, weight: float | None) -> None:
    from lancedb.rerankers import MRRReranker

    found = searched(LanceHybrid(k=100, reranker="mrr", weight=weight), query("winter storm lamp"), index)
    reranker = (
        MRRReranker(return_score="all")
        if weight is None
        else MRRReranker(weight, 1 - weight, return_score="all")
    )
    expected = lancedb_says(index, "winter storm lamp", reranker)
    ids = index.chunks["chunk_id"].gather(found.rows).to_list()
    assert set(ids) == set(expected)
    same = [abs(a - expected[c]) < 1e-6 for a, c in zip(found.scores, ids, strict=True)]
    assert same.count(True) > 45, "but for ties, which LanceDB orders otherwise"


def test_where_one_side_finds_nothing_the_other_one_is_the_ranking(index: OpenIndex) -> None:
    for reranker in ("rrf", "linear", "mrr"):
        recipe = LanceHybrid.model_validate({"k": 100, "reranker": reranker})
        found = searched(recipe, query("zyzzyva"), index)
        assert found.rows.tolist() == searched(Dense(k=100), query("zyzzyva"), index).rows.tolist()
        assert np.isfinite(found.scores).all()
        allowed = np.zeros(len(index), np.bool_)
        assert not len(searched(recipe, replace(query("ferry"), allowed=allowed), index))


def test_a_question_without_its_vector_is_an_error(index: OpenIndex) -> None:
    from rag_assay.evals.retrieval.query import Query

    with pytest.raises(ValueError, match="needs the question's vector"):
        searched(LanceHybrid(), Query("ferry"), index)
