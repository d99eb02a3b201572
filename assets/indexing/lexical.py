"""Words for lexical search: the same splitting for chunks and for questions."""

from __future__ import annotations

import re

_WORD = re.compile(r"\w+")


def plain_tokens(text: str) -> list[str]:
    """Return the lower-cased runs of letters, digits and underscores.

    >>> plain_tokens("Straßenlärm: Art. 5(2)")
    ['strassenlärm', 'art', '5', '2']
    """
    return _WORD.findall(text.casefold())
