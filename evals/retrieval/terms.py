"""The words of an index by one analyzer, and what lexical search derives from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from rag_assay.assets.indexing.lexical import Lexical

Floats = npt.NDArray[np.float64]
Variant = Literal["okapi", "plus", "l", "lower_bounded"]


@dataclass(frozen=True)
class Parameters:
    """What BM25 is told; `Bm25` says what each means and how large it may be."""

    variant: Variant
    k1: float
    b: float
    epsilon: float
    delta: float


@dataclass(frozen=True)
class Bm25Scores:
    """A BM25 model of a corpus for sparse postings; but for `lower_bounded`, as rank-bm25 0.2.2 computes it.

    idf: of each word, shape (words,)
    norms: 1 - b + b * length / mean length of each chunk, shape (chunks,)
    """

    lexical: Lexical
    parameters: Parameters
    idf: Floats
    norms: Floats

    @classmethod
    def of(cls, lexical: Lexical, parameters: Parameters) -> Bm25Scores:
        lengths = lexical.lengths.astype(np.float64)
        mean = float(lengths.mean()) if len(lengths) else 0.0
        norms = 1 - parameters.b + parameters.b * lengths / (mean or 1.0)
        return cls(lexical, parameters, inverse_frequencies(lexical, parameters), norms)

    def score(self, words: Mapping[str, float]) -> tuple[npt.NDArray[np.int64], Floats]:
        """Return the rows, rising, that hold at least one of the words, and their scores.

        A word's part in a score is multiplied by its weight: how often the question says it, or less for one
        that the question does not say itself. Words that the corpus lacks add nothing.
        """
        known = [(self.lexical.numbers[word], weight) for word, weight in words.items() if word in self]
        total = np.zeros(len(self.norms))
        found = np.zeros(len(self.norms), np.bool_)
        for number, weight in known:
            part = slice(int(self.lexical.begins[number]), int(self.lexical.begins[number + 1]))
            rows = self.lexical.rows[part]
            total[rows] += weight * self.idf[number] * self._saturated(rows, self.lexical.counts[part])
            found[rows] = True
        self.lexical.let_go()
        at = np.flatnonzero(found)
        scores = total[at]
        if self.parameters.variant == "plus":  # rank-bm25 gives delta to the chunks without the word, too
            scores += self.parameters.delta * sum(weight * self.idf[number] for number, weight in known)
        return at, scores

    def __contains__(self, word: str) -> bool:
        return word in self.lexical.numbers

    def _saturated(self, rows: npt.NDArray[np.int32], counts: npt.NDArray[np.int32]) -> Floats:
        """Return what a word adds to each row before it is multiplied by its idf (plus: without delta)."""
        k1, norms = self.parameters.k1, self.norms[rows]
        if self.parameters.variant == "l":
            shifted = counts / norms + self.parameters.delta
            # The paper's numerator has no term frequency of its own; rank-bm25 multiplies by it, so we do.
            return counts * (k1 + 1) * shifted / (k1 + shifted)
        part = counts * (k1 + 1) / (counts + k1 * norms)
        return part + self.parameters.delta if self.parameters.variant == "lower_bounded" else part


def inverse_frequencies(lexical: Lexical, parameters: Parameters) -> Floats:
    """Return each word's inverse document frequency as the variant defines it, shape (words,).

    okapi: log((N - n + 0.5) / (n + 0.5)), and epsilon times the mean of all where that is negative
    plus, lower_bounded: log((N + 1) / n); l: log((N + 1) / (n + 0.5))
    """
    chunks, holding = len(lexical.lengths), np.diff(lexical.begins).astype(np.float64)
    if parameters.variant in {"plus", "lower_bounded"}:
        return np.log((chunks + 1) / holding)
    if parameters.variant == "l":
        return np.log(chunks + 1) - np.log(holding + 0.5)
    idf = np.log(chunks - holding + 0.5) - np.log(holding + 0.5)
    return np.where(idf < 0, parameters.epsilon * (idf.mean() if len(idf) else 0.0), idf)


@dataclass(frozen=True)
class WordsOfChunks:
    """The words of each chunk: a lexical index the other way round.

    begins: where each chunk's words begin, shape (chunks + 1,)
    numbers: word numbers, shape (postings,)
    shares: count / length of the chunk, shape (postings,)
    holding: in how many chunks each word stands, shape (words,)
    """

    lexical: Lexical
    begins: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int32]
    shares: npt.NDArray[np.float64]
    holding: npt.NDArray[np.int64]

    @classmethod
    def of(cls, lexical: Lexical) -> WordsOfChunks:
        holding = np.diff(lexical.begins)
        order = np.argsort(lexical.rows, kind="stable")
        rows = lexical.rows[order]
        numbers = np.repeat(np.arange(len(lexical.words), dtype=np.int32), holding)[order]
        shares = lexical.counts[order] / lexical.lengths[rows]
        begins = np.searchsorted(rows, np.arange(len(lexical.lengths) + 1)).astype(np.int64)
        return cls(lexical, begins, numbers, shares, holding)

    def chunk(self, row: int) -> slice:
        return slice(int(self.begins[row]), int(self.begins[row + 1]))


@dataclass(frozen=True)
class TermIndex:
    """Postings of an index's words, and the models of them that searches share."""

    lexical: Lexical
    _models: dict[Parameters, Bm25Scores] = field(default_factory=dict, repr=False)

    def bm25(self, parameters: Parameters) -> Bm25Scores:
        """Return the BM25 model with these parameters, computed once."""
        if parameters not in self._models:
            self._models[parameters] = Bm25Scores.of(self.lexical, parameters)
        return self._models[parameters]

    @cached_property
    def of_chunks(self) -> WordsOfChunks:
        return WordsOfChunks.of(self.lexical)
