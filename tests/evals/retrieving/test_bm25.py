"""Our BM25 gives rank-bm25's own scores to the chunks that share a word with the question."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rank_bm25
import Stemmer

from assets.indexing.lexical import plain_tokens
from evals.retrieving.bm25 import Bm25
from evals.retrieving.index import OpenIndex
from tests.fakes.indexing import build_index, query

WORDS = ["ferry", "noon", "quay", "harbour", "ticket", "tickets", "lamp", "keeper", "water", "the", "a", "of"]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> OpenIndex:
    chance = np.random.default_rng(3)
    # `the` stands in most chunks, so that its idf is negative and rank-bm25 floors it.
    texts = [" ".join(["the", *chance.choice(WORDS, size=chance.integers(1, 20))]) for _ in range(60)]
    return build_index(tmp_path_factory.mktemp("words"), [*texts, "the", "elsewhere"])


REFERENCES: dict[str, tuple[Any, dict[str, Any]]] = {
    "okapi": (rank_bm25.BM25Okapi, {"k1": 1.5, "b": 0.75, "epsilon": 0.25}),
    "plus": (rank_bm25.BM25Plus, {"k1": 1.5, "b": 0.75, "delta": 1}),
    "l": (rank_bm25.BM25L, {"k1": 1.5, "b": 0.75, "delta": 0.5}),
}


@pytest.mark.parametrize(
    "text", ["ferry noon", "the", "tickets of the harbour keeper", "ferry ferry pump nix"]
)
@pytest.mark.parametrize("tokenizer", ["plain", "stemmed"])
@pytest.mark.parametrize("variant", REFERENCES)
def test_scores_are_those_of_rank_bm25(index: OpenIndex, variant: str, tokenizer: str, text: str) -> None:
    stem = Stemmer.Stemmer("english").stemWords if tokenizer == "stemmed" else list
    corpus = [stem(plain_tokens(chunk)) for chunk in index.chunks["text"]]
    made, parameters = REFERENCES[variant]
    words = stem(plain_tokens(text))
    reference = made(corpus, **parameters).get_scores(words)
    matching = [row for row, chunk in enumerate(corpus) if set(chunk) & set(words)]
    recipe = Bm25.model_validate({"variant": variant, "tokenizer": tokenizer, "k": 10_000})
    ranking = recipe.rank(query(text), index)
    assert sorted(ranking.rows.tolist()) == matching
    assert np.allclose(ranking.scores, reference[ranking.rows], rtol=0, atol=1e-9)


def test_parameters_reach_rank_bm25(index: OpenIndex) -> None:
    corpus = [plain_tokens(chunk) for chunk in index.chunks["text"]]
    reference = rank_bm25.BM25L(corpus, k1=0.9, b=0.4, delta=0.1).get_scores(["ferry", "lamp"])
    ranking = Bm25(variant="l", k1=0.9, b=0.4, delta=0.1, k=5).rank(query("ferry lamp"), index)
    assert np.allclose(ranking.scores, reference[ranking.rows], rtol=0, atol=1e-9)


def test_a_chunk_without_a_shared_word_is_not_found(index: OpenIndex) -> None:
    ranking = Bm25(variant="plus", k=10_000).rank(query("elsewhere"), index)
    assert index.chunks["text"][int(ranking.rows[0])] == "elsewhere"
    assert len(ranking.rows) == 1


def test_stemming_goes_by_the_language(tmp_path: Path) -> None:
    german = build_index(tmp_path, ["Die Häuser am Hafen", "tickets and ticketing"])
    plain, english, stemmed = (
        Bm25.model_validate(recipe)
        for recipe in ({}, {"tokenizer": "stemmed"}, {"tokenizer": "stemmed", "language": "german"})
    )
    assert not len(plain.rank(query("Hauses ticketed"), german).rows)
    assert stemmed.rank(query("Hauses"), german).rows.tolist() == [0]
    assert english.rank(query("ticketed"), german).rows.tolist() == [1]


def test_one_model_serves_every_depth(index: OpenIndex) -> None:
    Bm25(k=1, b=0.31).rank(query("ferry"), index)
    made = len(index._made)
    Bm25(k=50, b=0.31).rank(query("noon"), index)
    assert len(index._made) == made
    Bm25(k=50, b=0.32).rank(query("noon"), index)
    assert len(index._made) == made + 1
