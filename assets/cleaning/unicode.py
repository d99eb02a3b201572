"""Normalises text: repairs wrongly decoded characters, composes to NFC, removes invisible characters."""

from __future__ import annotations

import html
import math
import re
import unicodedata

# What UTF-8 becomes that is read by another charset: signs beyond ASCII side by side, control characters, or
# (where a no-break space was made a plain one) a lead byte before a space.
_SUSPECT = re.compile("[^\x00-\x7f]{2}|[\x80-\x9f]|[\xc2-\xf4] ")

_UNSPACED = re.compile(  # Thai, Lao, Burmese, Khmer, kana and Han
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)
_INVISIBLE = re.compile("[\u00ad\u200b\u200c\u200d\u2060\ufeff]")


def collapse_whitespace(text: str) -> str:
    """Return a text without entities, soft hyphens and runs of white space."""
    plain = html.unescape(text) if "&" in text else text
    return " ".join(without_invisible(plain).split())


def without_invisible(text: str) -> str:
    return text if text.isascii() else _INVISIBLE.sub("", text)


def count_words(text: str) -> int:
    """Count the words of a text; two signs of a script that writes without spaces are one.

    >>> count_words("A quick, brown fox"), count_words("何時に出発しますか"), count_words("เรือออกตอนเที่ยง")
    (4, 5, 8)
    """
    signs = len(_UNSPACED.findall(text))
    return len(_UNSPACED.sub(" ", text).split()) + math.ceil(signs / 2)


def repair_encoding(text: str) -> str:
    """Undo decoding by the wrong charset ("FuÃŸball"), by ftfy, in the lines where it may have happened.

    >>> repair_encoding("FuÃŸball"), repair_encoding("Fußball")
    ('Fußball', 'Fußball')
    """
    if text.isascii() or not _SUSPECT.search(text):
        return text
    import ftfy

    lines = text.split("\n")
    return "\n".join(ftfy.fix_encoding(line) if _SUSPECT.search(line) else line for line in lines)


def tidy(text: str) -> str:
    """Bring Unicode to NFC and take out characters that no reader sees (NUL, lone surrogates)."""
    if text.isascii():
        return text.replace("\0", "").strip()
    whole = text.encode("utf-8", "ignore").decode()
    return unicodedata.normalize("NFC", whole.replace("\0", "")).strip()
