"""Texts in English and in German, looked up by name: those of the app, and of what it shows of a report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal, get_args

from rag_assay.evals.reporting.display import count

Language = Literal["en", "de"]
Texts = Mapping[str, tuple[str, str]]
"""Name of a text -> the text in English and in German, as format strings."""
Words = Callable[..., str]
"""(name of a text, values in it) -> the text in a language."""


def words_in(texts: Texts, language: Language) -> Words:
    """Return what looks up texts in a language.

    >>> words_in({"n": ("{n} pages", "{n} Seiten")}, "de")("n", n=3)
    '3 Seiten'
    """
    return partial(_text, texts, get_args(Language).index(language))


def _text(texts: Texts, at: int, name: str, /, **values: object) -> str:
    return texts[name][at].format(**values)


def several(words: Words, name: str, n: int, **values: object) -> str:
    """Return the text that counts things; that of one thing is called ``name_1``.

    >>> several(words_in({"p": ("{n} pages", "{n} Seiten"), "p_1": ("1 page", "1 Seite")}, "en"), "p", 1)
    '1 page'
    """
    return words(f"{name}_1" if n == 1 else name, n=count(n), **values)


CHARTS: Texts = {
    "effect": ("Effect of the {axis}", "Wirkung: {axis}"),
    "by_group": ("{title} by kind of question", "{title} nach Art der Frage"),
    "by_axis_and_group": (
        "{title} by {axis} and kind of question",
        "{title} nach {axis} und Art der Frage",
    ),
    "together": ("Two axes together", "Zwei Achsen zusammen"),
    "pair": ("{one} and {other}: {title}", "{one} und {other}: {title}"),
    "questions": ("Questions", "Fragen"),
    "difference": ("Difference", "Differenz"),
    "best": ("best", "beste"),
    "mean": ("Mean", "Mittel"),
    "by_length": ("{title} by {axis} and length of context", "{title} nach {axis} und Länge des Kontexts"),
    "tokens": ("tokens", "Tokens"),
    "front": ("What no other beats", "Was keine andere übertrifft"),
    "and_cost": ("{title} and {cost}", "{title} und {cost}"),
    "costs_by_cell": ("Costs by cell", "Kosten nach Pipeline"),
    "cell": ("Cell", "Pipeline"),
}
"""Titles of charts that the app shows in German too."""
LISTED: Mapping[Language, Mapping[str, str]] = {"en": {}, "de": {"last": "und", "more": "weitere"}}
"""Words of `display.listed`."""
