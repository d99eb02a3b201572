"""The sentence that says that the documents hold no answer: what generators give, and what is then right."""

from __future__ import annotations

UNANSWERED = {"en": "The documents do not say.", "de": "Die Dokumente sagen dazu nichts."}
"""Language -> the sentence."""


def unanswered(language: str | None) -> str:
    """Return the sentence in a language, or in English.

    >>> unanswered("de"), unanswered("fr")
    ('Die Dokumente sagen dazu nichts.', 'The documents do not say.')
    """
    return UNANSWERED.get((language or "").lower(), UNANSWERED["en"])
