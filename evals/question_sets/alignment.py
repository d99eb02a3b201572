"""Where a quote stands that is not there word for word: the most similar stretch of a text.

The similarity is one minus the insertions and deletions of characters that make one text of the other, over
the characters of both (normalised Indel distance, `rapidfuzz.fuzz.ratio`): 2 M / T with M the length of the
longest common subsequence and T that of both texts. White space, case and the style of quotation marks and
dashes do not count.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

Ids: TypeAlias = "npt.NDArray[np.int32]"
Weights: TypeAlias = "npt.NDArray[np.float64]"
_UNSPACED = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"  # written without spaces
_WORD = r"\w+"
_SIGN_OR_WORD = rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+"
_ANY_UNSPACED = f"[{_UNSPACED}]"
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
        found = list(re.finditer(_pattern(text), text))
        self.words = [_form(match[0]) for match in found]
        self.starts = [match.start() for match in found]
        self.ends = [match.end() for match in found]


def plain_words(text: str) -> list[str]:
    return [_form(word) for word in re.findall(_pattern(text), text)]


def _pattern(text: str) -> str:
    return _SIGN_OR_WORD if re.search(_ANY_UNSPACED, text) else _WORD


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

    A word counts once, however often it occurs.

    Args:
        ids: of the text's words, shape (n,): places in ``weights``, or UNKNOWN.
        weights: what each word that is looked for counts, shape (m,), each at least 0.
        width: words of a stretch; its ends are moved in to words that are looked for.

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


SPACE = r"\s+"
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
    plain = unicodedata.normalize("NFKC", text).translate(_SAME)
    return re.sub(SPACE, " ", plain).strip().casefold()


SIMILAR = 0.9
"""From here on a stretch counts as the quote (docs/proof.md says what was measured)."""

NOT_EXACT = 0.999  # the most that is said of what is not there word for word
LONGEST = 20_000  # characters of a quote that is looked for in this way
# Signs around a place that may be of the quote.
_BEFORE, _AFTER = r"[^\w\s]+$", r"[^\w\s]+"
_TRIED = 4  # stretches that are aligned
_AWAY = 32  # words by which the ends of a stretch are moved at most
_LEAST_SHARE = 0.2  # of the quote's words, below which nothing is aligned


class Alignment(NamedTuple):
    """Where something stands in a text: offsets, and how similar it is: 1 for what is there word for word."""

    start: int
    end: int
    similarity: float


def most_similar(document: WordedText, quote: str, least: float = SIMILAR) -> Alignment | None:
    """Return the stretch of a document most similar to ``quote``, in whole words; None below ``least``."""
    words = plain_words(quote)
    if not words or len(quote) > LONGEST:
        return None
    numbers = {word: number for number, word in enumerate(dict.fromkeys(words))}
    ids = numbered(document.words, numbers)
    counts = Counter(ids[ids >= 0].tolist())
    weights = np.array([math.log(1 + len(ids) / (counts[number] + 1)) for number in numbers.values()])
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


def _by_words(ids: list[int], wanted: list[int], stretch: Stretch) -> tuple[int, int]:
    from rapidfuzz.distance import Indel

    def likeness(first: int, last: int) -> float:
        return Indel.normalized_similarity(wanted, ids[first : last + 1])

    away = min(_AWAY, len(wanted) // 2 + 2)
    return _ascended(likeness, stretch.first, stretch.last, away, len(ids))


def _by_signs(document: WordedText, target: str, first: int, last: int) -> Alignment:
    from rapidfuzz import fuzz

    text, starts, ends = document.text, document.starts, document.ends

    def likeness(first: int, last: int) -> float:
        return fuzz.ratio(target, readable(text[starts[first] : ends[last]])) / 100

    first, last = _ascended(likeness, first, last, 3, len(starts))
    start, end = starts[first], ends[last]
    before, after = re.search(_BEFORE, text[max(0, start - 3) : start]), re.match(_AFTER, text[end : end + 3])
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


def find_quote(text: str, quote: str) -> tuple[int, int] | None:
    """Return the offsets of the first place of ``quote`` in ``text`` (in NFC, as documents are); or None.

    White space, the style of quotation marks and dashes, and signs that no reader sees (soft hyphens) do not
    count. A quote that is not there is looked for once more with ligatures, superscripts and their like as
    the plain letters and digits that they stand for (Unicode's form NFKC).
    """
    return next(places_of(text, quote), None)


def places_of(text: str, quote: str) -> Iterator[tuple[int, int]]:
    composed = unicodedata.normalize("NFC", quote)  # a quote that was typed elsewhere may not be
    for fold in (canonical, compatible):
        words = re.split(SPACE, fold(composed)[0].strip())
        plain, origin = fold(text)
        found = re.finditer(r"\s+".join(map(re.escape, words)), plain) if words[0] else iter(())
        spans = [match.span() for match in found]
        yield from spans if origin is None else ((origin[a], origin[b - 1] + 1) for a, b in spans)
        if spans:
            return
