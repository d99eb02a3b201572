"""Where a quote stands that is not there word for word: the most similar stretch of a text.

The similarity is one minus the insertions and deletions of characters that make one text of the other, over
the characters of both (normalised Indel distance, `rapidfuzz.fuzz.ratio`): 2 M / T with M the length of the
longest common subsequence and T that of both texts. White space, case and the style of quotation marks and
dashes do not count.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from rapidfuzz import fuzz
from rapidfuzz.distance import Indel

from rag_assay.evals.question_sets.text_normalization import readable
from rag_assay.evals.question_sets.word_spans import (
    Stretch,
    Weights,
    WordedText,
    numbered,
    plain_words,
    stretches,
)

SIMILAR = 0.9
"""From here on a stretch counts as the quote (docs/questions.md says what was measured)."""

NOT_EXACT = 0.999  # the most that is said of what is not there word for word
LONGEST = 20_000  # characters of a quote that is looked for in this way
# Signs around a place that may be of the quote.
_BEFORE, _AFTER = re.compile(r"[^\w\s]+$"), re.compile(r"[^\w\s]+")
_TRIED = 4  # stretches that are aligned
_AWAY = 32  # words by which the ends of a stretch are moved at most
_LEAST_SHARE = 0.2  # of the quote's words, below which nothing is aligned


class Alignment(NamedTuple):
    """Where something stands in a text: offsets, and how similar it is: 1 for what is there word for word."""

    start: int
    end: int
    similarity: float


def most_similar(document: WordedText, quote: str, least: float = SIMILAR) -> Alignment | None:
    """Return the stretch of a document most similar to ``quote``, in whole words; None below ``least``.

    >>> document = WordedText("Well: the ferry leaves the harbor at noon. Then")
    >>> most_similar(document, "The ferry leaves the harbour at noon")
    Alignment(start=6, end=41, similarity=0.986)
    """
    words = plain_words(quote)
    if not words or len(quote) > LONGEST:
        return None
    numbers = {word: number for number, word in enumerate(dict.fromkeys(words))}
    ids = numbered(document.words, numbers)
    weights = _weights(numbers, Counter(ids[ids >= 0].tolist()), len(ids))
    wanted = [numbers[word] for word in words]
    target = readable(quote)
    best: Alignment | None = None
    for stretch in stretches(ids, weights, len(words) + len(words) // 5 + 1, _TRIED):
        if stretch.share < _LEAST_SHARE:
            break
        first, last = _by_words(ids.tolist(), wanted, stretch)
        found = _by_signs(document, target, first, last)
        if best is None or found.similarity > best.similarity:
            best = found
    return best if best is not None and best.similarity >= least else None


def _weights(numbers: dict[str, int], counts: Counter[int], n_words: int) -> Weights:
    """Return what each word of the quote counts: more, the rarer it is in the text."""
    return np.array([math.log(1 + n_words / (counts[number] + 1)) for number in numbers.values()])


def _by_words(ids: list[int], wanted: list[int], stretch: Stretch) -> tuple[int, int]:
    """Return the first and last word of the part around a stretch whose words are most like the quote's."""

    def likeness(first: int, last: int) -> float:
        return Indel.normalized_similarity(wanted, ids[first : last + 1])

    away = min(_AWAY, len(wanted) // 2 + 2)
    return _ascended(likeness, stretch.first, stretch.last, away, len(ids))


def _by_signs(document: WordedText, target: str, first: int, last: int) -> Alignment:
    """Return the place around words ``first`` to ``last`` that is most similar, sign by sign."""
    text, starts, ends = document.text, document.starts, document.ends

    def likeness(first: int, last: int) -> float:
        return fuzz.ratio(target, readable(text[starts[first] : ends[last]])) / 100

    first, last = _ascended(likeness, first, last, 3, len(starts))
    start, end = starts[first], ends[last]
    before, after = _BEFORE.search(text[max(0, start - 3) : start]), _AFTER.match(text[end : end + 3])
    spans = [
        (start - at, end + more)
        for at in {0, len(before[0]) if before else 0}
        for more in {0, len(after[0]) if after else 0}
    ]
    scored = [(fuzz.ratio(target, readable(text[a:b])) / 100, a, b) for a, b in spans]
    similarity, start, end = max(scored, key=lambda one: (one[0], one[1] - one[2]))
    return Alignment(start, end, round(min(similarity, NOT_EXACT), 3))


def _ascended(
    likeness: Callable[[int, int], float], first: int, last: int, away: int, n_words: int
) -> tuple[int, int]:
    """Move one end after the other to where the likeness is greatest, until neither moves; shortest first."""
    best = likeness(first, last)
    moved = True
    while moved:
        moved = False
        begins = [(one, last) for one in range(max(0, first - away), min(last, first + away) + 1)]
        ends = [(first, one) for one in range(max(first, last - away), min(n_words - 1, last + away) + 1)]
        for one in sorted(begins + ends, key=lambda pair: pair[1] - pair[0]):
            value = likeness(*one)
            if value > best + 1e-9:
                best, (first, last), moved = value, one, True
    return first, last
