"""Splits text into the words that lexical search counts, in every script."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterator
from functools import cache

# Scripts that are written without spaces, and how many characters a term of them has. MRR@10 on XQuAD:
# Chinese .952 in pairs (.936 single, .864 threes), Thai .956 in threes (.917 pairs, .954 fours).
_PAIRS = "\u1100-\u11ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_THREES = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_RUN = f"(?P<pairs>[{_PAIRS}]+)|(?P<threes>[{_THREES}]+)|(?P<word>[^{_PAIRS}{_THREES}]+)"
_LENGTH = {"pairs": 2, "threes": 3}
_UNSPACED = f"[{_PAIRS}{_THREES}]"
_PLAIN = r"\w+"
_MAY_BE_MARKED = "[\u0300-\u036f\u0483-\u1dff\u2c00-\U0003ffff]"  # not Latin, Greek, Cyrillic


@cache
def _marked() -> re.Pattern[str]:
    """Match runs of letters, digits and marks, which `\\w` leaves out: Hindi writes vowels as marks."""
    marks = "".join(
        c for c in map(chr, range(0x300, sys.maxunicode)) if unicodedata.category(c) in {"Mn", "Mc"}
    )
    return re.compile(rf"[\w{marks}]+")


def _pattern(text: str) -> re.Pattern[str] | str:
    return _marked() if re.search(_MAY_BE_MARKED, text) else _PLAIN  # ten times faster


def word_places(text: str) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of each word of a text: runs of letters, digits and underscores. Scripts without
    spaces give overlapping terms: pairs of characters in Chinese, Japanese and Korean, threes in Thai, Lao,
    Burmese and Khmer.

    >>> text = "Art. 5, 海港门"
    >>> [text[start:end] for start, end in word_places(text)]
    ['Art', '5', '海港', '港门']
    """
    unspaced, runs = re.compile(_UNSPACED), re.compile(_RUN)
    for found in re.finditer(_pattern(text), text):
        if unspaced.search(text, *found.span()) is None:
            yield found.span()
            continue
        for run in runs.finditer(text, *found.span()):
            length = min(_LENGTH.get(str(run.lastgroup), sys.maxsize), len(run[0]))
            yield from ((at, at + length) for at in range(run.start(), run.end() - length + 1))


def plain_tokens(text: str) -> list[str]:
    """Return the lower-cased words of a text.

    >>> plain_tokens("Straßenlärm: Art. 5(2)"), plain_tokens("हिन्दी में")
    (['strassenlärm', 'art', '5', '2'], ['हिन्दी', 'में'])
    """
    folded = text.casefold()
    if re.search(_UNSPACED, folded):
        return [folded[start:end] for start, end in word_places(folded)]
    return re.findall(_pattern(folded), folded)
