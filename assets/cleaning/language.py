"""Detects the language of a text by py3langid, where neither source nor page names it."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

HEAD = 4000  # characters looked at: more change nothing, and the identifier reads byte by byte
SURE = 0.5  # probability below which nothing is said (of two languages mixed, of a list of numbers)


@cache
def detector() -> str | None:
    """Return name and version of the installed detector, part of document identities; None without one."""
    try:
        return f"py3langid {version('py3langid')}"
    except PackageNotFoundError:
        return None


def detect(text: str) -> str | None:
    """Return the ISO 639 code of a text's language, or None if that is uncertain. Lui and Baldwin, langid.py,
    ACL 2012: naive Bayes over byte n-grams, normalised over 139 languages.
    """
    if detector() is None:
        return None
    code, probability = _identifier().classify(text[:HEAD])
    return str(code) if probability >= SURE and code != "zxx" else None  # zxx: not a language


def language_of(source: str | None, page: str | None, text: str) -> tuple[str | None, str | None]:
    if source:
        return source, "source"
    if page:
        return page, "page"
    found = detect(text)
    return found, "detected" if found else None


@cache
def _identifier() -> Any:
    from py3langid.langid import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
        MODEL_FILE,
        LanguageIdentifier,
    )

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
