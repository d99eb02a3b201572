"""How answers end, in the words of the app."""

from __future__ import annotations

from rag_assay.orchestration.web.languages import Words, app_texts

TEXTS = app_texts("outcomes")


def outcome(code: str, words: Words) -> str:
    return words(code) if code in TEXTS else code.replace("_", " ")
