"""The sentence with which generators say that the documents hold no answer, by language."""

from __future__ import annotations

UNANSWERED = {"en": "The documents do not say.", "de": "Die Dokumente sagen dazu nichts."}
"""Language -> the sentence."""


def unanswered(language: str | None) -> str:
    return UNANSWERED.get((language or "").lower(), UNANSWERED["en"])
