"""One list of words without a subject serves the retrievers and the understanding of questions."""

from __future__ import annotations

import pytest

from assets.indexing.lexical import plain_tokens
from evals.retrieving.function_words import ASKING, FUNCTION_WORDS
from evals.understanding.rules.question_words import STOP


@pytest.mark.parametrize("language", FUNCTION_WORDS)
def test_words_are_written_as_tokens_are(language: str) -> None:
    for word in FUNCTION_WORDS[language] | ASKING[language]:
        assert plain_tokens(word) == [word]


@pytest.mark.parametrize("language", FUNCTION_WORDS)
def test_a_word_stands_in_one_list(language: str) -> None:
    assert not FUNCTION_WORDS[language] & ASKING[language]


def test_questions_are_read_by_the_same_list() -> None:
    assert {"en": "english", "de": "german"}.keys() == STOP.keys()
    assert STOP["en"] > FUNCTION_WORDS["english"]
    assert STOP["de"] > FUNCTION_WORDS["german"]


@pytest.mark.parametrize("word", ["won", "t", "d", "m", "c"])
def test_what_may_be_a_subject_is_in_no_list(word: str) -> None:
    assert word not in STOP["en"]
