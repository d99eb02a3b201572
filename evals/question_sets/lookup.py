"""Looks for texts in all documents of a corpus: quotes that name no document, ground truths, contexts.

Which documents are looked into is told by their words: the share of a text's words that a document holds,
each by its rarity, bounds the share that any stretch of it holds, so that the others are passed over unread.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from rag_assay.assets.chunking.sentence_splitter import sentence_places
from rag_assay.evals.question_sets.alignment import NOT_EXACT, Alignment, most_similar
from rag_assay.evals.question_sets.exact_matches import find_quote
from rag_assay.evals.question_sets.word_spans import (
    Ids,
    Stretch,
    Weights,
    WordedText,
    plain_words,
    stretches,
    tighten_stretch,
)
from rag_assay.evals.word_lists import LANGUAGES, function_words

COVERED, COVERED_WITH_QUESTION = 0.75, 0.85
"""Share of a ground truth's words from which on a place counts as its evidence (docs/questions.md); of one
that is looked for together with its question it is more: a text may hold those words without the answer."""

_STEM, _SHORT = 6, 3  # letters of a crude stem that serves many languages; of words left as they are
_PASSAGE = 100  # words: in how many passages a word stands says how rare it is
_VERDICTS = frozenset({"yes", "no", "ja", "nein"})
_NARROWEST = 30  # words of the stretch that is to hold a ground truth
_FEW_WORDS = 3  # below so many that tell something, a ground truth is looked for together with its question
_EXACT, _ALIGNED, _EQUAL = (
    50,
    5,
    3,
)  # documents that are read for a quote word for word, aligned, taken if equal
_LITTLE, _WIDENED = (
    0.05,
    10,
)  # share by which whole sentences may hold more; documents that are widened to them
_AROUND = 400  # characters by which a place is widened at most on each side, to whole sentences


class DocumentMatch(NamedTuple):
    """A document of the corpus, by its number, and the place in it."""

    document: int
    place: Alignment


class Lookup:
    """The words of some texts in all documents of a corpus.

    Held are four bytes for each word of the documents, and twelve for each that a text has.

    Args:
        texts: of the documents, by number.
        wanted: all texts that will be looked for: other words are not kept.
    """

    def __init__(self, texts: Sequence[str], wanted: Iterable[str]) -> None:
        self.texts = texts
        forms = dict.fromkeys(form for text in wanted for form in _telling(plain_words(text)))
        self._numbers = {form: number for number, form in enumerate(forms)}
        known = _Known(self._numbers)
        self._ids: list[Ids] = [
            np.fromiter((known[word] for word in words), np.int32, len(words))
            for words in map(plain_words, texts)
        ]
        self._weights = self._rarity()
        pairs = [np.unique(ids[ids >= 0]) for ids in self._ids]
        words = np.concatenate([*pairs, np.zeros(0, np.int32)])
        order = np.argsort(words, kind="stable")
        self._documents = np.repeat(np.arange(len(pairs)), [len(pair) for pair in pairs])[order]
        self._begins = np.searchsorted(words[order], np.arange(len(forms) + 1))
        self._worded = lru_cache(maxsize=8)(lambda number: WordedText(texts[number]))

    def quote(self, quote: str) -> DocumentMatch | None:
        """Return where a quote stands: word for word in the first such document, or most similar."""
        wanted = self._wanted(plain_words(quote))
        ranked = [number for number, _ in self._likely(wanted)]
        for number in sorted(ranked[:_EXACT]):
            if span := find_quote(self.texts[number], quote):
                return DocumentMatch(number, Alignment(*span, 1.0))
        best: DocumentMatch | None = None
        for number in ranked[:_ALIGNED]:
            place = most_similar(self._worded(number), quote)
            if place is not None and (best is None or place.similarity > best.place.similarity):
                best = DocumentMatch(number, place)
        return best

    def ground_truth(self, truth: str, question: str, least: float | None = None) -> list[DocumentMatch]:
        """Return the places that hold most of a ground truth's words, in whole sentences; the best are equal.

        The similarity is the share of the words that are no function words, each counted by its rarity in the
        corpus, ``log(1 + (N - df + 0.5) / (df + 0.5))`` with N passages, df of them holding it. A truth that
        says hardly more than yes or no is looked for together with its question.

        least: the similarity of a place that counts; None: `COVERED`, or `COVERED_WITH_QUESTION`
        """
        words = plain_words(truth)
        is_short = len(set(_telling(words))) < _FEW_WORDS
        if is_short:
            words += plain_words(question)
        if least is None:
            least = COVERED_WITH_QUESTION if is_short else COVERED
        wanted = self._wanted(words)
        width = max(_NARROWEST, len(words) + len(words) // 2)
        weights = self._weights[wanted]
        found: list[DocumentMatch] = []
        for number, local, stretch in self._fullest(wanted, width, least):
            place = self._place(number, local, weights, tighten_stretch(local, weights, stretch))
            if place.similarity >= least:
                found = _with(found, DocumentMatch(number, place))
        return sorted(found)[:_EQUAL]

    def _fullest(self, wanted: Ids, width: int, least: float) -> list[tuple[int, Ids, Stretch]]:
        """Return the documents, their words and stretches that hold most of the words, or little less."""
        weights = self._weights[wanted]
        found: list[tuple[int, Ids, Stretch]] = []
        most = least
        for number, bound in self._likely(wanted):
            if bound < most - _LITTLE:
                break
            local = self._local(number, wanted)
            for stretch in stretches(local, weights, width, 1):
                found.append((number, local, stretch))
                most = max(most, stretch.share)
        near = [one for one in found if one[2].share >= most - _LITTLE]
        return sorted(near, key=lambda one: -one[2].share)[:_WIDENED]

    def _rarity(self) -> Weights:
        """Return the weight of each word, shape (words,)."""
        counts = np.zeros(len(self._numbers))
        n_passages = 0
        for ids in self._ids:
            at = np.flatnonzero(ids >= 0)
            in_passage = np.unique(at // _PASSAGE * max(len(counts), 1) + ids[at])
            counts += (
                np.bincount(in_passage % max(len(counts), 1), minlength=len(counts)) if len(counts) else 0
            )
            n_passages += -(-len(ids) // _PASSAGE)
        return np.log1p((n_passages - counts + 0.5) / (counts + 0.5))

    def _wanted(self, words: Sequence[str]) -> Ids:
        """Return the numbers of the words that tell something, each once."""
        forms = dict.fromkeys(_telling(words))
        return np.array([self._numbers[form] for form in forms], np.int32)

    def _likely(self, wanted: Ids) -> Iterator[tuple[int, float]]:
        """Yield the documents that hold any of the words, and the share that they hold: most first."""
        held = np.zeros(len(self._ids))
        for word in wanted:
            held[self._documents[self._begins[word] : self._begins[word + 1]]] += self._weights[word]
        total = float(self._weights[wanted].sum())
        for number in np.argsort(-held, kind="stable"):
            if held[number] <= 0:
                return
            yield int(number), float(held[number]) / total

    def _local(self, number: int, wanted: Ids) -> Ids:
        """Return the words of a document as places in ``wanted``."""
        places = np.full(len(self._numbers) + 1, -1, np.int32)  # the last one for what is not looked for
        places[wanted] = np.arange(len(wanted))
        return places[self._ids[number]]

    def _place(self, number: int, local: Ids, weights: Weights, stretch: Stretch) -> Alignment:
        """Return a stretch of a document widened to whole sentences, with the share that these hold."""
        worded = self._worded(number)
        start, end = in_sentences(worded.text, worded.starts[stretch.first], worded.ends[stretch.last])
        inside = local[bisect_left(worded.starts, start) : bisect_left(worded.starts, end)]
        share = float(weights[np.unique(inside[inside >= 0])].sum() / weights.sum())
        return Alignment(start, end, round(min(share, NOT_EXACT), 3))


class _Known(dict[str, int]):
    """Word -> number of its form, -1 for what is not looked for; each is worked out once."""

    def __init__(self, numbers: Mapping[str, int]) -> None:
        super().__init__()
        self._of = numbers

    def __missing__(self, word: str) -> int:
        self[word] = number = self._of.get(_form(word), -1)
        return number


def _with(best: list[DocumentMatch], found: DocumentMatch) -> list[DocumentMatch]:
    """Return the best so far with one more, if that is as good; alone, if it is better."""
    if not best or found.place.similarity > best[0].place.similarity:
        return [found]
    return [*best, found] if found.place.similarity == best[0].place.similarity else best


def _telling(words: Iterable[str]) -> Iterator[str]:
    """Yield the forms of the words that are no function words."""
    return (_form(word) for word in words if word not in _functional())


@lru_cache(maxsize=1)
def _functional() -> frozenset[str]:
    return _VERDICTS.union(*(function_words(language) for language in LANGUAGES))


def _form(word: str) -> str:
    """Return a crude stem.

    >>> _form("stays"), _form("directives"), _form("2018"), _form("gas")
    ('stay', 'direct', '2018', 'gas')
    """
    if not word.isalpha() or len(word) <= _SHORT:
        return word
    return word[:_STEM].rstrip("s")


def in_sentences(text: str, start: int, end: int) -> tuple[int, int]:
    """Widen a place to whole sentences; an end that would move too far stays where it is.

    >>> text = "It rains. The ferry leaves at noon, always. It calls at the island."
    >>> "{}|{}".format(*in_sentences(text, 14, 27))
    '10|43'
    """
    left, right = max(0, start - _AROUND), min(len(text), end + _AROUND)
    places = [(left + a, left + b) for a, b in sentence_places(text[left:right])]
    begins = [a for a, b in places if a <= start < b and (a > left or left == 0)]
    stops = [b for a, b in places if a < end <= b and (b < right or right == len(text))]
    return min([start, *begins]), max([end, *stops])
