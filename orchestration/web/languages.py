"""The languages of the pages: the browser's, unless the address says another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

Language = Literal["en", "de"]
LANGUAGES: Mapping[Language, str] = {"en": "English", "de": "Deutsch"}
PARAMETER = "lang"
"""What the language is called in the address, so that a reload keeps it."""


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
