"""The word lists: every file can be read, in both languages, and one list of stop words serves all."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import get_args

import pytest

from rag_assay.assets.tokenization.words import plain_tokens
from rag_assay.evals.retrieval.question_words import stop_words
from rag_assay.evals.word_lists import (
    FOLDER,
    LANGUAGES,
    Language,
    alternation,
    entries,
    function_words,
    groups,
    numbered,
    question_stop_words,
    table,
)

FILES = sorted(FOLDER.rglob("*.toml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_every_file_holds_lists_of_its_language(file: Path) -> None:
    assert file.parent.name in LANGUAGES
    found = tomllib.loads(file.read_text("utf-8"))
    assert found
    for name, group in found.items():
        entries_of_group = group.split() if isinstance(group, str) else list(group)
        # A pattern may stand beside the question that it becomes.
        words = [entry[0] if isinstance(entry, list) else entry for entry in entries_of_group]
        assert len(words) == len(set(words)), f"{name} lists a word twice"
        for pattern in words:
            re.compile(pattern)


@pytest.mark.parametrize("topic", sorted({file.stem for file in FILES}))
def test_a_topic_has_a_file_for_each_language(topic: str) -> None:
    assert all((FOLDER / language / f"{topic}.toml").is_file() for language in get_args(Language))


def test_a_file_is_read_once() -> None:
    assert groups("calendar", "german") is groups("calendar", "german")


def test_an_unknown_topic_is_an_error() -> None:
    with pytest.raises(FileNotFoundError, match="no_such_topic"):
        entries("no_such_topic", "words")


def test_groups_of_both_languages_are_joined_english_first() -> None:
    english, german = (entries("publishing", "until", language) for language in LANGUAGES)
    assert entries("publishing", "until") == (*english, *german)
    assert english[0] == "until"
    assert alternation("publishing", "changing", "german") == "änder|kritisier|aufheb|ersetz"
    assert numbered("calendar", "weekdays")["sonnabend"] == 5
    assert table("calendar", "units")["woche"] == "week"


def test_every_month_and_weekday_has_a_name_in_each_language() -> None:
    for language in LANGUAGES:
        assert [int(number) for number in groups("calendar", language)["months"]] == list(range(1, 13))
        assert [int(number) for number in groups("calendar", language)["weekdays"]] == list(range(7))


@pytest.mark.parametrize("language", LANGUAGES)
def test_stop_words_are_written_as_tokens_are(language: Language) -> None:
    for word in question_stop_words(language):
        assert plain_tokens(word) == [word]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_stop_word_stands_in_one_list(language: Language) -> None:
    assert not function_words(language) & set(entries("questions", "asking", language))


def test_questions_are_read_by_the_same_list() -> None:
    assert stop_words("en") > function_words("english")
    assert stop_words("de") > function_words("german")
    assert stop_words() == stop_words("en") | stop_words("de")


@pytest.mark.parametrize("word", ["won", "t", "d", "m", "c"])
def test_what_may_be_a_subject_is_in_no_list(word: str) -> None:
    assert word not in stop_words("en")


def test_the_extractive_generators_stop_words_are_stop_words() -> None:
    assert set(entries("extractive", "stop_words")) - stop_words() == {"wieviel", "wodurch", "worauf"}
