"""The words of a text with their places, and the stretches of it that hold most words of another text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int32]
Weights = npt.NDArray[np.float64]
_UNSPACED = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"  # written without spaces
_WORD = re.compile(r"\w+")
_SIGN_OR_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")
_ANY_UNSPACED = re.compile(f"[{_UNSPACED}]")
UNKNOWN = -1
_PER_LENGTH = 0.2  # share that a whole stretch must hold more than a very short part of it


class WordedText:
    """A text and its words with their places; of scripts without spaces each sign is a word.

    words: as they are compared
    starts, ends: offsets of each in the text

    >>> worded = WordedText("Art. 5, 海港")
    >>> worded.words, worded.starts, worded.ends
    (['art', '5', '海', '港'], [0, 5, 8, 9], [3, 6, 9, 10])
    """

    __slots__ = ("ends", "starts", "text", "words")

    def __init__(self, text: str) -> None:
        self.text = text
        found = list(_pattern(text).finditer(text))
        self.words = [_form(match[0]) for match in found]
        self.starts = [match.start() for match in found]
        self.ends = [match.end() for match in found]


def plain_words(text: str) -> list[str]:
    """Return the words of a text in their order, without their places."""
    return [_form(word) for word in _pattern(text).findall(text)]


def _pattern(text: str) -> re.Pattern[str]:
    return _SIGN_OR_WORD if _ANY_UNSPACED.search(text) else _WORD


def _form(word: str) -> str:
    return word.lower() if word.isascii() else unicodedata.normalize("NFKC", word).casefold()


def numbered(words: Sequence[str], numbers: Mapping[str, int]) -> Ids:
    """Return the number of each word, shape (words,); UNKNOWN where it has none."""
    return np.fromiter((numbers.get(word, UNKNOWN) for word in words), np.int32, len(words))


class Stretch(NamedTuple):
    """Words ``first`` to ``last`` of a text, both included, and the share of the weights that they hold."""

    first: int
    last: int
    share: float


def stretches(ids: Ids, weights: Weights, width: int, most: int) -> list[Stretch]:
    """Return the stretches of ``width`` words that hold most, the best first, none overlapping.

    A word counts once, however often it stands there.

    Args:
        ids: of the text's words, shape (n,): places in ``weights``, or UNKNOWN.
        weights: what each word that is looked for counts, shape (m,), each at least 0.
        width: words of a stretch; its ends are moved in to words that are looked for.
        most: how many to return.

    >>> stretches(np.array([-1, 0, 1, -1, -1, 1], np.int32), np.array([1.0, 3.0]), 3, 2)
    [Stretch(first=1, last=2, share=1.0), Stretch(first=5, last=5, share=0.75)]
    """
    held = _held(ids, weights, width)
    total = float(weights.sum())
    known = np.flatnonzero(ids >= 0)
    found: list[Stretch] = []
    while len(found) < most and len(held):
        at = int(held.argmax())
        value = float(held[at])
        if value <= 1e-9 * total:
            break
        inside = known[np.searchsorted(known, at) : np.searchsorted(known, at + width)]
        found.append(Stretch(int(inside[0]), int(inside[-1]), round(value / total, 12)))
        held[max(0, at - width + 1) : at + width] = 0
    return found


def tighten_stretch(ids: Ids, weights: Weights, stretch: Stretch) -> Stretch:
    """Return the part of a stretch that holds nearly as much in fewer words.

    It is the part with the greatest share, less `_PER_LENGTH` times its length over the stretch's.

    >>> ids = np.array([0, -1, -1, -1, 1, 2, 0], np.int32)
    >>> tighten_stretch(ids, np.array([1.0, 2.0, 2.0]), Stretch(0, 6, 1.0))
    Stretch(first=4, last=6, share=1.0)
    """
    known = [at for at in range(stretch.first, stretch.last + 1) if ids[at] >= 0]
    total, length = float(weights.sum()), stretch.last - stretch.first + 1
    best = (stretch.share - _PER_LENGTH, stretch)
    for number, first in enumerate(known):
        seen: set[int] = set()
        held = 0.0
        for last in known[number:]:
            if ids[last] not in seen:
                seen.add(ids[last])
                held += float(weights[ids[last]])
                value = held / total - _PER_LENGTH * (last - first + 1) / length
                if value > best[0] + 1e-9:
                    best = (value, Stretch(first, last, round(held / total, 12)))
    return best[1]


def _held(ids: Ids, weights: Weights, width: int) -> Weights:
    """Return the weight of the words that the stretch from each word on holds, shape (n,)."""
    at = np.flatnonzero(ids >= 0)
    words = ids[at]
    order = np.lexsort((at, words))
    at, words = at[order], words[order]
    begins = np.maximum(at - width + 1, 0)
    # A stretch that holds a word twice counts it at the earlier place.
    again = np.flatnonzero(words[1:] == words[:-1]) + 1
    begins[again] = np.maximum(begins[again], at[again - 1] + 1)
    steps = np.zeros(len(ids) + 1)
    np.add.at(steps, begins, weights[words])
    np.subtract.at(steps, at + 1, weights[words])
    return np.cumsum(steps)[:-1]
