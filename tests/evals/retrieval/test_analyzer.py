"""Words are told apart as they stand, by stem or by lemma; postings follow, and lengths with them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rag_assay.assets.indexing.lexical import lexical_of
from rag_assay.assets.tokenization.words import plain_tokens
from rag_assay.evals.retrieval.analyzer import Analyzer, merge_forms, question_tokens
from tests.fakes.indexing import build_index

TEXTS = ("The studies of a study", "mice and the mouse", "", "of the", "A mouse studied mice; mice ran")


def test_postings_of_one_lemma_are_put_together() -> None:
    lexical = merge_forms(lexical_of(TEXTS), Analyzer("lemmatised", "english", functional=False))
    assert lexical.words == ["mouse", "run", "study"]
    found = {word: [part.tolist() for part in lexical.postings(word)] for word in lexical.words}
    assert found == {"mouse": [[1, 4], [2, 3]], "run": [[4], [1]], "study": [[0, 4], [2, 1]]}
    assert lexical.lengths.tolist() == [2, 2, 0, 0, 5]  # function words no longer count


@pytest.mark.parametrize("functional", [True, False])
@pytest.mark.parametrize("tokenizer", ["plain", "stemmed", "lemmatised"])
@pytest.mark.parametrize("language", ["english", "german"])
def test_reworded_postings_are_those_of_reworded_texts(
    tokenizer: str, language: str, functional: bool
) -> None:
    chance = np.random.default_rng(11)
    english = ["the", "of", "studies", "study", "ran", "running", "mice", "mouse", "1987", "x_1"]
    words = [*english, "Häuser", "haus", "gemeinden", "die", "und"]
    texts = [" ".join(chance.choice(words, size=chance.integers(0, 30))) for _ in range(50)]
    analyzer = Analyzer(tokenizer, language, functional)  # type: ignore[arg-type]
    found = merge_forms(lexical_of(texts), analyzer)
    expected = lexical_of(" ".join(analyzer.counted(plain_tokens(text))) for text in texts)
    assert found.words == expected.words
    for name in ("begins", "rows", "counts", "lengths"):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name


def test_words_that_stand_for_themselves_cost_nothing(tmp_path: Path) -> None:
    index = build_index(tmp_path, TEXTS)
    assert index.terms(Analyzer()).lexical is index.lexical
    stemmed = index.terms(Analyzer("stemmed")).lexical
    assert index.terms(Analyzer("stemmed")).lexical is stemmed


def test_a_title_is_counted_as_often_as_said(tmp_path: Path) -> None:
    titles = ["Quay and ferry", None, "Lamp"]
    index = build_index(tmp_path, ["the ferry", "noon", ""], columns={"title": titles})
    lexical = index.terms(Analyzer(), 2).lexical
    found = {word: [part.tolist() for part in lexical.postings(word)] for word in lexical.words}
    assert found == {
        "and": [[0], [2]],
        "ferry": [[0], [3]],  # once in the text, twice for the title
        "lamp": [[2], [2]],
        "noon": [[1], [1]],
        "quay": [[0], [2]],
        "the": [[0], [1]],
    }
    assert lexical.lengths.tolist() == [8, 1, 2]


@pytest.mark.parametrize(
    ("language", "sentence", "left"),
    [
        ("english", "They don't say whether the ferry was late", ["say", "ferry", "late"]),
        ("english", "Who’s won? We're short of vitamin D.", ["won", "short", "vitamin", "d"]),
        ("german", "Wird die Fähre heute noch über den Fluß fahren?", ["fähre", "heute", "fluss", "fahren"]),
    ],
)
def test_what_is_left_of_a_sentence(language: str, sentence: str, left: list[str]) -> None:
    analyzer = Analyzer("plain", language, functional=False)  # type: ignore[arg-type]
    assert analyzer.counted(question_tokens(sentence, contracted=False)) == left
