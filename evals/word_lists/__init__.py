"""Word lists for the rules that read questions: TOML files, one for each language and topic.

A group in a file is text (words between white space), a list (phrases, or regular expressions where its
comment says so), or a table from a meaning to the words that have it (the months by their numbers).
"""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

Language = Literal["english", "german"]
LANGUAGES: tuple[Language, ...] = get_args(Language)
FOLDER = Path(__file__).parent


@cache
def groups(topic: str, language: Language) -> dict[str, Any]:
    return tomllib.loads((FOLDER / language / f"{topic}.toml").read_text("utf-8"))


@cache
def entries(topic: str, group: str, *languages: Language) -> tuple[str, ...]:
    """Return the words, phrases or patterns of a group in their order, of all languages unless told which."""
    found: list[str] = []
    for language in languages or LANGUAGES:
        group_of_language = groups(topic, language).get(group, ())
        found += group_of_language.split() if isinstance(group_of_language, str) else group_of_language
    return tuple(found)


@cache
def table(topic: str, group: str) -> dict[str, str]:
    """Return word -> what it means of a table such as the months, in all languages."""
    return {
        word: meaning
        for language in LANGUAGES
        for meaning, words in groups(topic, language)[group].items()
        for word in words.split()
    }


@cache
def numbered(topic: str, group: str) -> dict[str, int]:
    return {word: int(number) for word, number in table(topic, group).items()}


@cache
def function_words(language: Language) -> frozenset[str]:
    """Return the words of the closed classes: articles, pronouns, prepositions, auxiliaries and the like."""
    classes = groups("function_words", language)
    return frozenset(word for name in classes for word in entries("function_words", name, language))


@cache
def question_stop_words(language: Language) -> frozenset[str]:
    """Return the function words, and the words that only ask ("please", "gibt")."""
    return function_words(language) | frozenset(entries("questions", "asking", language))


@cache
def alternation(topic: str, group: str, *languages: Language) -> str:
    """Return the entries of a group as the inside of a regular expression's group: `one|other|third`."""
    return "|".join(entries(topic, group, *languages))
