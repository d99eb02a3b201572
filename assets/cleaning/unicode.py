"""One form for all text: repaired charsets, NFC, nothing that no reader sees."""

from __future__ import annotations

import unicodedata


def repaired(text: str) -> str:
    """Undo text that was decoded by the wrong charset before it came to us ("FuÃŸball"), by ftfy."""
    import ftfy

    return ftfy.fix_encoding(text)


def tidy(text: str) -> str:
    """Bring Unicode to NFC and take out characters that no reader sees (NUL, lone surrogates)."""
    whole = text.encode("utf-8", "ignore").decode()
    return unicodedata.normalize("NFC", whole.replace("\0", "")).strip()
