"""The languages of the app: the browser's, unless the address says another; and how texts are looked up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal, get_args

from rag_assay.evals.reporting.display import count

Language = Literal["en", "de"]
LANGUAGES: Mapping[Language, str] = {"en": "English", "de": "Deutsch"}
PARAMETER = "lang"
"""What the language is called in the address, so that a reload keeps it."""

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


def table_in(texts: Texts, language: Language) -> dict[str, str]:
    """Return all texts in a language, as format strings: for the scripts of a page."""
    at = get_args(Language).index(language)
    return {name: both[at] for name, both in texts.items()}


def several(words: Words, name: str, n: int, **values: object) -> str:
    """Return the text that counts things; that of one thing is called ``name_1``.

    >>> several(words_in({"p": ("{n} pages", "{n} Seiten"), "p_1": ("1 page", "1 Seite")}, "en"), "p", 1)
    '1 page'
    """
    return words(f"{name}_1" if n == 1 else name, n=count(n), **values)


def language_of(wanted: str | None, locale: str | None) -> Language:
    """Return the language of a page.

    wanted: what the address says
    locale: of the browser, as in de-AT

    >>> language_of(None, "de-AT"), language_of("en", "de"), language_of("xx", None)
    ('de', 'en', 'en')
    """
    for said in (wanted, (locale or "").partition("-")[0].lower()):
        for one in get_args(Language):
            if said == one:
                return one
    return "en"


def language_here() -> Language:
    """Return the language of the page that is shown."""
    import streamlit as st

    return language_of(st.query_params.get(PARAMETER), st.context.locale)
