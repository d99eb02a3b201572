"""A name that is not known, and what to offer in its place."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

LIKE = 0.7  # how alike two names must be (0 to 1) for one to be offered in place of the other


def instead(name: str, known: Iterable[str]) -> str:
    """Offer the name that was probably meant, or all that there are.

    >>> instead("bm52", ["bm25", "dense"])
    'did you mean `bm25`?'
    """
    names = list(known)
    near = get_close_matches(name, names, n=1, cutoff=LIKE)
    return f"did you mean `{near[0]}`?" if near else f"known are {', '.join(names) or 'none'}"
