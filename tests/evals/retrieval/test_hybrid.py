"""`hybrid` is the fusion that it stands for, in one word."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from rag_assay.assets.embedding.embedder import EmbedderRecipe
from rag_assay.evals.retrieval.context import RetrievalContext
from rag_assay.evals.retrieval.hybrid import Hybrid
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.query import Query
from rag_assay.evals.study.registry import read_retriever
from tests.fakes.indexing import build_index, query, searched

WORDS = ("ferry", "quays", "noon", "tickets", "lamp", "keeper", "storm", "harbour", "the", "oil")


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> OpenIndex:
    chance = np.random.default_rng(3)
    texts = [" ".join(chance.choice(WORDS, size=n % 37 + 3)) for n in range(60)]
    return build_index(tmp_path_factory.mktemp("index"), texts)


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ({}, {"weights": [0.5, 0.5]}),
        (
            {"weight": 0.3, "normalise": "z_score"},
            {"weights": [0.7, 0.3], "weighted": {"normalise": "z_score"}},
        ),
        ({"depth": 15}, {"weights": [0.5, 0.5], "of": [{"bm25": {"k": 20}}, {"dense": {"k": 20}}]}),
        (
            {"bm25": {"language": "german"}, "dense": {"search": "exact"}},
            {"of": [{"bm25": {"k": 1000, "language": "german"}}, {"dense": {"k": 1000, "search": "exact"}}]},
        ),
    ],
)
def test_it_is_the_sum_of_normalised_scores(
    index: OpenIndex, said: dict[str, Any], written: dict[str, Any]
) -> None:
    fusion = {"weighted": {}, "of": [{"bm25": {"k": 1000}}, {"dense": {"k": 1000}}], "k": 20, **written}
    if "weights" not in written:
        fusion["weights"] = [0.5, 0.5]
    expected = read_retriever({"fuse": fusion})
    hybrid = read_retriever({"hybrid": {"k": 20, **said}})
    for text in ("ferry quay", "the storm", "When is the lamp lit?"):
        ours, theirs = searched(hybrid, query(text), index), searched(expected, query(text), index)
        assert ours.rows.tolist() == theirs.rows.tolist()
        assert ours.scores.tolist() == theirs.scores.tolist()
    assert set(expected.versions()) <= set(hybrid.versions())


def test_lancedbs_rerankers_have_a_name_of_their_own() -> None:
    with pytest.raises(ValidationError, match=r"those of `lancedb`, as in \{lancedb: \{reranker: linear\}\}"):
        Hybrid.model_validate({"reranker": "linear"})


def test_an_arm_has_the_depth_of_both() -> None:
    with pytest.raises(ValidationError, match="`depth` is the number of candidates of each"):
        Hybrid.model_validate({"bm25": {"k": 50}})
    again = Hybrid.model_validate(Hybrid(k=7).model_dump(mode="json"))
    assert again == Hybrid(k=7)


def test_a_question_without_a_vector_is_refused(index: OpenIndex) -> None:
    with pytest.raises(ValueError, match="needs the question's vector"):
        searched(Hybrid(), Query("ferry"), index)


@pytest.mark.parametrize(
    ("model", "weight"), [("all-MiniLM-L6-v2", 0.5), ("multilingual-e5-small", 0.7), ("./e5-large", 0.5)]
)
def test_the_weight_goes_by_the_embedder(index: OpenIndex, model: str, weight: float) -> None:
    context = RetrievalContext(dense_weight=EmbedderRecipe(model=model).dense_weight)
    asked = query("ferry harbour")
    found = searched(Hybrid(k=9), asked, index, context)
    expected = searched(Hybrid(k=9, weight=weight), asked, index)
    assert found.rows.tolist() == expected.rows.tolist()
    assert found.scores.tolist() == expected.scores.tolist()
    said = searched(Hybrid(k=9, weight=0.1), asked, index, context)
    assert said.scores.tolist() != expected.scores.tolist()
