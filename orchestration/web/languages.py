"""The languages of the app: the browser's, unless the address says another; and how texts are looked up."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import get_args

from rag_assay.evals.reporting.texts import Language, Texts, Words, read_texts, several, words_in

__all__ = ["Language", "Texts", "Words", "several", "words_in"]  # which pages use beside those of this module

LANGUAGES: Mapping[Language, str] = {"en": "English", "de": "Deutsch"}
PARAMETER = "lang"
"""What the language is called in the address, so that a reload keeps it."""


app_texts = partial(read_texts, name="texts.yaml", package="rag_assay.orchestration.web")
"""(group) -> its texts in the app's `texts.yaml`."""


def named(name: str, texts: Texts, words: Words) -> str:
    """Return what the page calls something; a name without a text stays as it is."""
    return words(name) if name in texts else name.replace("_", " ")


def table_in(texts: Texts, language: Language) -> dict[str, str]:
    at = get_args(Language).index(language)
    return {name: both[at] for name, both in texts.items()}


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
    import streamlit as st

    return language_of(st.query_params.get(PARAMETER), st.context.locale)
