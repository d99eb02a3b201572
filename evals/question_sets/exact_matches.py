"""Where a quote stands in a text word for word."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from rag_assay.evals.question_sets.text_normalization import SPACE, canonical, compatible


def find_quote(text: str, quote: str) -> tuple[int, int] | None:
    """Return the offsets of the first place of ``quote`` in ``text`` (in NFC, as documents are); or None.

    White space, the style of quotation marks and dashes, and signs that no reader sees (soft hyphens) do not
    count. A quote that is not there is looked for once more with ligatures, superscripts and their like as
    the plain letters and digits that they stand for (Unicode's form NFKC).

    >>> find_quote("A  b\\nc", "b c")
    (3, 6)
    """
    return next(places_of(text, quote), None)


def places_of(text: str, quote: str) -> Iterator[tuple[int, int]]:
    """Yield the offsets of each place of ``quote`` in ``text``, as `find_quote` sees them, none overlapping.

    >>> list(places_of("noon and noon", "noon"))
    [(0, 4), (9, 13)]
    """
    composed = unicodedata.normalize("NFC", quote)  # a quote that was typed elsewhere may not be
    for fold in (canonical, compatible):
        words = SPACE.split(fold(composed)[0].strip())
        plain, origin = fold(text)
        found = re.finditer(r"\s+".join(map(re.escape, words)), plain) if words[0] else iter(())
        spans = [match.span() for match in found]
        yield from spans if origin is None else ((origin[a], origin[b - 1] + 1) for a, b in spans)
        if spans:
            return
