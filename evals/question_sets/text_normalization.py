"""Texts as a reader sees them: signs that look alike are the same, and what nobody sees does not count."""

from __future__ import annotations

import re
import unicodedata

SPACE = re.compile(r"\s+")
_UNSEEN = "\u00ad\u200b\u200c\u200d\u2060\ufeff"  # soft hyphens, joiners, marks of zero width
# Typographic variants that a reader takes for the same sign, and what no reader sees.
_SAME = str.maketrans(
    {
        **dict.fromkeys("’‘‚‹›", "'"),
        **dict.fromkeys("„“”«»", '"'),
        **dict.fromkeys("‐‑‒–—−", "-"),
        **dict.fromkeys(_UNSEEN),
    }
)
Folded = tuple[str, list[int] | None]
"""A text as it is compared, and the place that each of its characters comes from; None: each from its own."""


def canonical(text: str) -> Folded:
    """Return a text in NFC with the variants of a sign as one."""
    plain = text.translate(_SAME)
    if len(plain) == len(text):
        return plain, None
    return plain, [at for at, sign in enumerate(text) if sign not in _UNSEEN]


def compatible(text: str) -> Folded:
    """Return a text with ligatures, superscripts and their like as the letters and digits they stand for."""
    if unicodedata.is_normalized("NFKC", text):
        return canonical(text)
    parts = [unicodedata.normalize("NFKC", sign).translate(_SAME) for sign in text]
    return "".join(parts), [at for at, part in enumerate(parts) for _ in part]


def readable(text: str) -> str:
    """Return a text for comparing by likeness: folded, in small letters, any white space one space.

    >>> readable("The  „ﬁrst“\\nFähre\u00ad")
    'the "first" fähre'
    """
    plain = unicodedata.normalize("NFKC", text).translate(_SAME)
    return SPACE.sub(" ", plain).strip().casefold()
