"""Our BM25 gives rank-bm25's own scores to the chunks that share a word with the question."""

from __future__ import annotations

import gzip
import json
import unicodedata
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rank_bm25
import Stemmer

from rag_assay.assets.indexing.lexical import Lexical
from rag_assay.assets.tokenization.words import plain_tokens
from rag_assay.evals.retrieval.bm25 import Bm25
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.query import Query
from rag_assay.evals.retrieval.rank_bm25 import RankBm25
from rag_assay.evals.retrieval.terms import Bm25Scores, Parameters
from tests.fakes.indexing import build_index, query, searched

SCIFACT = Path(__file__).resolve().parents[4] / "shared" / "data" / "scifact"
WORDS = ["ferry", "noon", "quay", "harbour", "ticket", "tickets", "lamp", "keeper", "water", "the", "a", "of"]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> OpenIndex:
    chance = np.random.default_rng(3)
    # `the` stands in most chunks, so that its idf is negative and rank-bm25 floors it.
    texts = [" ".join(["the", *chance.choice(WORDS, size=chance.integers(1, 20))]) for _ in range(60)]
    return build_index(tmp_path_factory.mktemp("words"), [*texts, "the", "elsewhere"])


PLAIN: dict[str, Any] = {
    "tokenizer": "plain",
    "function_words": "keep",
    "title": 0,
}  # as rank-bm25 is given its words
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
    said = {**PLAIN, "variant": variant, "tokenizer": tokenizer, "k": 10_000}
    recipe = Bm25.model_validate(said)
    ranking = searched(recipe, query(text), index)
    assert sorted(ranking.rows.tolist()) == matching
    assert np.allclose(ranking.scores, reference[ranking.rows], rtol=0, atol=1e-9)


def test_parameters_reach_rank_bm25(index: OpenIndex) -> None:
    corpus = [plain_tokens(chunk) for chunk in index.chunks["text"]]
    reference = rank_bm25.BM25L(corpus, k1=0.9, b=0.4, delta=0.1).get_scores(["ferry", "lamp"])
    ranking = searched(Bm25(variant="l", k1=0.9, b=0.4, delta=0.1, k=5, **PLAIN), query("ferry lamp"), index)
    assert np.allclose(ranking.scores, reference[ranking.rows], rtol=0, atol=1e-9)


@pytest.mark.parametrize("seed", range(25))
def test_any_corpus_and_any_parameters_give_rank_bm25s_scores(tmp_path: Path, seed: int) -> None:
    """Empty chunks, corpora of one chunk, words in most chunks, repeated and unknown words of questions."""
    chance = np.random.default_rng(seed)
    words = [f"w{number}" for number in range(int(chance.integers(1, 20)))]
    texts = [" ".join(chance.choice(words, size=chance.integers(0, 9))) for _ in range(seed + 1)]
    texts[0] = words[0]
    made = build_index(tmp_path, texts)
    corpus = [plain_tokens(text) for text in texts]
    for variant, (library, _) in REFERENCES.items():
        parameters = {
            "k1": float(chance.choice([0.01, 0.9, 1.5, 100])),
            "b": float(chance.choice([0, 0.4, 0.99])),
        }
        last = "epsilon" if variant == "okapi" else "delta"
        parameters[last] = float(chance.choice([0, 0.25, 1]))
        asked = [*chance.choice([*words, "unknown"], size=4).tolist(), words[0], words[0]]
        expected = library(corpus, **parameters).get_scores(asked)
        recipe = Bm25.model_validate({"variant": variant, **parameters, **PLAIN, "k": 1_000})
        found = searched(recipe, query(" ".join(asked)), made)
        assert set(found.rows.tolist()) == {n for n, chunk in enumerate(corpus) if set(chunk) & set(asked)}
        assert np.allclose(found.scores, expected[found.rows], rtol=0, atol=1e-9)


@pytest.mark.parametrize("words", [{}, {"tokenizer": "plain", "function_words": "keep", "title": 3}])
@pytest.mark.parametrize("variant", REFERENCES)
def test_the_reference_that_a_study_may_name_finds_and_scores_as_ours(
    index: OpenIndex, variant: str, words: dict[str, Any]
) -> None:
    said = {"variant": variant, "k": 10_000, "k1": 0.9, "b": 0.4, **words}
    allowed = np.arange(len(index)) % 3 > 0
    for text in ("ferry noon", "the", "tickets of the harbour keeper", "ferry ferry pump nix", "", "pump"):
        for permitted in (None, allowed):
            asked = Query(text, allowed=permitted)
            ours = searched(Bm25.model_validate(said), asked, index)
            theirs = searched(RankBm25.model_validate(said), asked, index)
            assert sorted(theirs.rows.tolist()) == sorted(ours.rows.tolist())
            assert np.allclose(theirs.scores, ours.scores, rtol=0, atol=1e-9)


def test_the_reference_is_the_library_s_own(index: OpenIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_bm25.BM25L, "get_scores", lambda *_: np.full(len(index), 42.0))
    found = searched(RankBm25(variant="l", delta=0.31, k=10_000), query("ferry"), index)
    assert set(found.scores.tolist()) == {42.0}


def test_a_question_in_parts_of_letters_finds_what_the_composed_one_finds(tmp_path: Path) -> None:
    made = build_index(tmp_path, ["Die Fähre legt ab.", "Häuser am Hafen", "noon"])
    for recipe in (Bm25(), Bm25(tokenizer="lemmatised", language="german")):
        whole = searched(recipe, query("Fähre Häuser"), made)
        parts = searched(recipe, query(unicodedata.normalize("NFD", "Fähre Häuser")), made)
        assert len(whole) == 2
        assert parts.rows.tolist() == whole.rows.tolist()


def test_an_end_of_a_contraction_is_not_the_letter(tmp_path: Path) -> None:
    made = build_index(tmp_path, ["T cells of mice", "They don't swim", "A vitamin"])
    dropped = Bm25(function_words="drop")
    assert searched(dropped, query("Don't T cells age?"), made).rows[0] == 0
    assert not len(searched(dropped, query("Don't they?"), made)), "nothing is left of it"


def test_a_chunk_without_a_shared_word_is_not_found(index: OpenIndex) -> None:
    ranking = searched(Bm25(variant="plus", k=10_000), query("elsewhere"), index)
    assert index.chunks["text"][int(ranking.rows[0])] == "elsewhere"
    assert len(ranking.rows) == 1


def test_stemming_goes_by_the_language(tmp_path: Path) -> None:
    german = build_index(tmp_path, ["Die Häuser am Hafen", "tickets and ticketing"])
    plain, english, stemmed = (Bm25.model_validate(recipe) for recipe in (PLAIN, {}, {"language": "german"}))
    assert not len(searched(plain, query("Hauses ticketed"), german).rows)
    assert searched(stemmed, query("Hauses"), german).rows.tolist() == [0]
    assert searched(english, query("ticketed"), german).rows.tolist() == [1]


def test_one_model_serves_every_depth(index: OpenIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[Parameters] = []

    def count(lexical: Lexical, parameters: Parameters) -> Bm25Scores:
        computed.append(parameters)
        return of(lexical, parameters)

    of = Bm25Scores.of
    monkeypatch.setattr(Bm25Scores, "of", count)
    searched(Bm25(k=1, b=0.31), query("ferry"), index)
    searched(Bm25(k=50, b=0.31), query("noon"), index)
    assert [one.b for one in computed] == [0.31]
    searched(Bm25(k=50, b=0.32), query("noon"), index)
    assert [one.b for one in computed] == [0.31, 0.32]


def test_a_lower_bound_is_for_chunks_that_hold_the_word(index: OpenIndex) -> None:
    corpus = [plain_tokens(chunk) for chunk in index.chunks["text"]]
    reference = rank_bm25.BM25Plus(corpus, delta=0)
    found = searched(Bm25(variant="lower_bounded", delta=0.7, k=10_000, **PLAIN), query("ferry lamp"), index)
    expected = reference.get_scores(["ferry", "lamp"])
    for word in ("ferry", "lamp"):
        expected = expected + 0.7 * reference.idf[word] * np.array([word in chunk for chunk in corpus])
    assert np.allclose(found.scores, expected[found.rows], rtol=0, atol=1e-9)


def test_only_allowed_chunks_are_found(index: OpenIndex) -> None:
    everything = searched(Bm25(k=10_000), query("ferry the"), index)
    allowed = np.arange(len(index)) % 3 == 0
    found = searched(Bm25(k=4), Query("ferry the", allowed=allowed), index)
    kept = allowed[everything.rows]
    assert found.rows.tolist() == everything.rows[kept][:4].tolist()
    assert found.scores.tolist() == everything.scores[kept][:4].tolist()


@pytest.mark.parametrize("tokenizer", ["plain", "stemmed", "lemmatised"])
def test_a_question_of_function_words_finds_nothing_when_they_are_dropped(
    index: OpenIndex, tokenizer: Any
) -> None:
    for said, found in ((None, False), ("drop", False), ("keep", True)):
        recipe = Bm25(tokenizer=tokenizer, function_words=said)
        assert bool(len(searched(recipe, query("of the"), index))) == found, "dropped unless said otherwise"


def test_german_keeps_its_function_words_unless_told_to_drop_them(tmp_path: Path) -> None:
    made = build_index(tmp_path, ["Die Fähre am Hafen", "noon"])
    assert len(searched(Bm25(language="german"), query("die"), made))
    assert not len(searched(Bm25(language="german", function_words="drop"), query("die"), made))


def test_what_is_not_said_is_what_measured_best() -> None:
    """`benchmarks/defaults.py` measures it; whoever changes a default changes the table, too."""
    assert Bm25().model_dump(exclude={"k", "expand", "feedback", "delta", "epsilon"}) == {
        **{"variant": "okapi", "k1": 1.5, "b": 0.75},
        **{"tokenizer": "stemmed", "language": None, "function_words": None, "title": 1},
    }


@pytest.fixture(scope="module")
def scifact(tmp_path_factory: pytest.TempPathFactory) -> OpenIndex:
    if not SCIFACT.is_dir():
        pytest.skip("shared/data/scifact is not there")
    with gzip.open(SCIFACT / "corpus.jsonl.gz") as file:
        passages = [json.loads(line) for line in file][::2]
    texts = [f"{passage['title']}\n{passage['text']}" for passage in passages]
    return build_index(tmp_path_factory.mktemp("scifact"), texts, [np.ones(2, np.float32)] * len(texts))


@pytest.mark.parametrize("variant", REFERENCES)
def test_scifact_is_ranked_as_rank_bm25_ranks_it(scifact: OpenIndex, variant: str) -> None:
    """The same best ten, and their scores to 1e-6: of every tenth test question.

    rank-bm25 is asked word by word, each once, for a question's score is the sum of those of its words.
    """
    graded = {line.split()[0] for line in (SCIFACT / "qrels" / "test.tsv").read_text().splitlines()[1:]}
    lines = (SCIFACT / "queries.jsonl").read_text().splitlines()
    questions = [entry["text"] for entry in map(json.loads, lines) if entry["_id"] in graded]
    assert len(questions) == 300
    made, parameters = REFERENCES[variant]
    reference = made([plain_tokens(text) for text in scifact.chunks["text"]], **parameters)
    recipe = Bm25.model_validate({"variant": variant, **PLAIN})
    of_word = cache(lambda word: reference.get_scores([word]))
    for question in questions[::10]:
        scores = np.sum([of_word(word) for word in plain_tokens(question)], axis=0)
        best = np.argsort(-scores.round(9), kind="stable")[:10]
        found = searched(recipe, query(question), scifact)
        assert found.rows.tolist() == best.tolist(), question
        assert np.allclose(found.scores, scores[best], rtol=0, atol=1e-6)
