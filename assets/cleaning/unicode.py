"""One form for all text: repaired charsets, NFC, nothing that no reader sees."""

from __future__ import annotations

import re
import unicodedata

# What UTF-8 becomes that is read by another charset: signs beyond ASCII side by side, control characters, or
# (where a no-break space was made a plain one) a lead byte before a space.
_SUSPECT = re.compile("[^\x00-\x7f]{2}|[\x80-\x9f]|[\xc2-\xf4] ")


def repaired(text: str) -> str:
    """Undo text that was decoded by the wrong charset before it came to us ("FuÃŸball"), by ftfy.

    Line by line, and only in lines where there can be such a thing: looking takes ftfy long.

    >>> repaired("FuÃŸball"), repaired("Fußball")
    ('Fußball', 'Fußball')
    """
    if not _SUSPECT.search(text):
        return text
    import ftfy

    lines = text.split("\n")
    return "\n".join(ftfy.fix_encoding(line) if _SUSPECT.search(line) else line for line in lines)


def tidy(text: str) -> str:
    """Bring Unicode to NFC and take out characters that no reader sees (NUL, lone surrogates)."""
    whole = text.encode("utf-8", "ignore").decode()
    return unicodedata.normalize("NFC", whole.replace("\0", "")).strip()
