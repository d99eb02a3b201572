"""How answers end, in the words of the app."""

from __future__ import annotations

from rag_assay.orchestration.web.languages import Texts, Words

TEXTS: Texts = {
    "ok": ("ok", "beantwortet"),
    "refused": ("refused", "abgelehnt"),
    "no_context": ("no context", "ohne Passage"),
    "parse_failed": ("parse failed", "Antwortformat ungültig"),
    "truncated": ("truncated", "abgeschnitten"),
    "timeout": ("timeout", "Zeitüberschreitung"),
    "rate_limited": ("rate limited", "gedrosselt"),
    "over_budget": ("over budget", "über dem Budget"),
    "error": ("error", "Fehler"),
    "not_run": ("not run", "nicht gelaufen"),
    "thumbs_down": ("thumbs down", "Daumen nach unten"),
    "declined": ("declined", "abgelehnt"),
    "failed": ("failed", "fehlgeschlagen"),
    "search": ("search", "Suche"),
    "answer": ("answer", "Antwort"),
    "whole": ("whole", "insgesamt"),
}


def outcome(code: str, words: Words) -> str:
    """Return a status, or the reason of a question without an answer, in words."""
    return words(code) if code in TEXTS else code.replace("_", " ")
