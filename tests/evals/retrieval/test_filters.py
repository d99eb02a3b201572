"""A filter before the search finds what filtering afterwards over everything would, scores and all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assay.assets.indexing.index_recipe import IndexRecipe
from rag_assay.evals.retrieval.context import RetrievalContext
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.study.registry import read_retriever
from tests.fakes.indexing import build_index, query, searched, vector_of

WORDS = ("ferry", "quay", "lamp", "noon", "storm", "oil")
COUNT = 60
ARMS: dict[str, dict[str, Any]] = {
    "bm25": {"bm25": {}},
    "bm25 plus": {"bm25": {"variant": "plus", "tokenizer": "stemmed"}},
    "bm25 expanded": {"bm25": {"expand": {"words": 2, "similarity": 0.1}}},
    "fulltext": {"fulltext": {}},
    "dense": {"dense": {"search": "exact"}},
    "metadata": {"metadata": {}},
    "recency": {"recency": {"decay": 0.001}},
}
TOGETHER: dict[str, Any] = {
    "hybrid": {"hybrid": {"depth": COUNT}},
    "lancedb": {"lancedb": {"depth": COUNT}},
    "fuse": {"fuse": {"of": [{"bm25": {"k": COUNT}}, {"dense": {"k": COUNT}}]}},
    "weighted": {"fuse": {"weighted": {}, "of": [{"bm25": {"k": COUNT}}, {"recency": {"k": COUNT}}]}},
    "graph": {"graph": {"of": {"dense": {"k": COUNT}}, "similarity": 0.2}},
}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> OpenIndex:
    chance = np.random.default_rng(11)
    texts = [" ".join(chance.choice(WORDS, 5)) for _ in range(COUNT)]
    columns = {
        "published_at": [f"2024-01-{number % 28 + 1:02}" for number in range(COUNT)],
        "keywords": [list(chance.choice(WORDS, 2, replace=False)) for _ in range(COUNT)],
    }
    folder = tmp_path_factory.mktemp("index")
    return build_index(folder, texts, columns=columns, recipe=IndexRecipe(search="exact"))


MASKS = st.sets(st.integers(0, COUNT - 1)).map(lambda rows: np.isin(np.arange(COUNT), list(rows)))
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)


def found(written: dict[str, Any], k: int, text: str, index: OpenIndex, **fields: Any) -> list[Any]:
    (kind,) = written
    recipe = read_retriever({kind: {**written[kind], "k": k}})
    context = RetrievalContext(embed=lambda texts: np.stack([vector_of(one) for one in texts]))
    ranking = searched(recipe, replace(query(text), **fields), index, context)
    return list(zip(ranking.rows.tolist(), ranking.scores.tolist(), strict=True))


def predicate(allowed: Any) -> str:
    ids = [f"c{row:03}" for row in np.flatnonzero(allowed)]
    return f"chunk_id IN ({', '.join(repr(one) for one in (*ids, 'none'))})"


@pytest.mark.parametrize("name", ARMS)
def test_an_arm_gives_the_first_of_what_is_left(name: str, index: OpenIndex) -> None:
    @settings(max_examples=25, deadline=None, derandomize=True)
    @given(allowed=MASKS, text=TEXTS, k=st.integers(1, COUNT), said=st.booleans())
    def holds(allowed: Any, text: str, k: int, said: bool) -> None:
        everything = found(ARMS[name], COUNT, text, index)
        where = predicate(allowed) if said else None
        before = found(ARMS[name], k, text, index, allowed=allowed, where=where)
        assert before == [hit for hit in everything if allowed[hit[0]]][:k]

    holds()


@pytest.mark.parametrize("name", TOGETHER)
def test_what_arms_give_together_is_the_same_set(name: str, index: OpenIndex) -> None:
    """Scores of a fusion go by what each arm found: a filter before it leaves candidates, not ranks."""

    @settings(max_examples=15, deadline=None, derandomize=True)
    @given(allowed=MASKS, text=TEXTS, said=st.booleans())
    def holds(allowed: Any, text: str, said: bool) -> None:
        everything = {row for row, _ in found(TOGETHER[name], COUNT, text, index)}
        where = predicate(allowed) if said else None
        before = {row for row, _ in found(TOGETHER[name], COUNT, text, index, allowed=allowed, where=where)}
        assert before == {row for row in everything if allowed[row]}

    holds()
