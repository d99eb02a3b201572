"""Detects the language of a text by py3langid, where neither source nor page names it."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

HEAD = 4000  # characters looked at: more change nothing, and the identifier reads byte by byte
SURE = 0.5  # probability below which nothing is said (of two languages mixed, of a list of numbers)


@cache
def detector() -> str | None:
    """Return name and version of what detects languages here; None when it is not installed.

    It goes into the identity of documents, so that an installation without it gives other ones.
    """
    try:
        return f"py3langid {version('py3langid')}"
    except PackageNotFoundError:
        return None


def detect(text: str) -> str | None:
    """Return the ISO 639 code of the language of a text, or None where that is not sure.

    Lui and Baldwin, langid.py: An Off-the-shelf Language Identification Tool, ACL 2012: naive Bayes over byte
    n-grams; the probabilities are normalised over the 139 languages of py3langid's model.
    """
    if detector() is None:
        return None
    code, probability = _identifier().classify(text[:HEAD])
    return str(code) if probability >= SURE and code != "zxx" else None  # zxx: not a language


def language_of(source: str | None, page: str | None, text: str) -> tuple[str | None, str | None]:
    """Return a document's language and who said so: the "source", the "page", or "detected" in its text."""
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
