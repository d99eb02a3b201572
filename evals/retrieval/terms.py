"""The words of an index by one analyzer, and what lexical search derives from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np

from rag_assay.evals.retrieval.ranking import Mask, Ranking, Rows, lower_bound

if TYPE_CHECKING:
    import numpy.typing as npt

    from rag_assay.assets.indexing.lexical import Lexical

Floats: TypeAlias = "npt.NDArray[np.float64]"
Variant = Literal["okapi", "plus", "l", "lower_bounded"]


@dataclass(frozen=True)
class Parameters:
    """What BM25 is told; `Bm25` says what each means and how large it may be."""

    variant: Variant
    k1: float
    b: float
    epsilon: float
    delta: float


HELD = 2_000_000  # saturations that a model keeps for its next queries: 16 MB
LONG, SHARE = 4_096, 16  # a word in more chunks, and in more than 1 of 16, may not be worth adding up
ROUNDING = 1e-9  # more than the share of a score that the order of its sum changes


class _Word(NamedTuple):
    """A word of a query, with its idf and the rows, rising, of the chunks that hold it."""

    number: int
    weight: float
    limit: float
    rows: npt.NDArray[np.int32]


@dataclass
class Bm25Scores:
    """BM25 by sparse postings, as rank-bm25 0.2.2 but for `lower_bounded`.

    norms: 1 - b + b * length / mean
    """

    lexical: Lexical
    parameters: Parameters
    idf: Floats
    norms: Floats
    _most: dict[int, float] = field(default_factory=dict, repr=False)  # word -> its largest saturation
    _kept: dict[int, Floats] = field(default_factory=dict, repr=False)  # word -> its saturations
    _held: int = 0  # numbers in `_kept`

    @classmethod
    def of(cls, lexical: Lexical, parameters: Parameters) -> Bm25Scores:
        lengths = lexical.lengths.astype(np.float64)
        mean = float(lengths.mean()) if len(lengths) else 0.0
        norms = 1 - parameters.b + parameters.b * lengths / (mean or 1.0)
        return cls(lexical, parameters, inverse_frequencies(lexical, parameters), norms)

    def best(self, words: Mapping[str, float], k: int, allowed: Mask | None = None) -> Ranking:
        """Rank the chunks that hold a word (form -> weight); allowed: chunks that may be found; None: all"""
        numbers = self.lexical.numbers
        known = [self._word(numbers[word], weight) for word, weight in words.items() if word in numbers]
        # rank-bm25's plus gives delta to the chunks without the word, too.
        is_plus = self.parameters.variant == "plus"
        constant = self.parameters.delta * sum(word.weight for word in known) if is_plus else 0.0
        rows, scores = self._found(known, k, allowed, constant)
        self.lexical.release_pages()
        return Ranking.best(rows, scores + constant if is_plus else scores, k)

    def _found(
        self, words: Sequence[_Word], k: int, allowed: Mask | None, constant: float
    ) -> tuple[Rows, Floats]:
        """Return rows, rising, with a word, the first k among them, and their scores: frequent words are
        looked up only in chunks that can still be among the first k (MaxScore: Turtle and Flood, 1995).
        """
        total = np.zeros(len(self.norms)) if allowed is None else np.where(allowed, 0.0, -np.inf)
        if any(word.weight <= 0 for word in words):  # no score then says whether a chunk holds a word
            rows = np.unique(np.concatenate([word.rows for word in words]))
            rows = rows[total[rows] == 0]
            return rows, self._scores(words, rows)
        is_long = [len(word.rows) > max(LONG, len(total) // SHARE) for word in words]
        for word, long in zip(words, is_long, strict=True):
            if not long:
                self._add(word, total)
        margin = ROUNDING * (sum(word.limit for word in words) + constant)
        if not any(is_long):
            rows = _rows_above(total, lower_bound(total, k) - margin)
            return rows, total[rows]
        rows = self._survivors(
            [word for word, long in zip(words, is_long, strict=True) if long], total, k, margin
        )
        return rows, self._scores(words, rows)

    def _survivors(self, words: Sequence[_Word], total: Floats, k: int, margin: float) -> Rows:
        """Return the rows, rising, that can be among the first k when these words are added."""
        words = sorted(words, key=lambda word: len(word.rows))
        for number, word in enumerate(words):
            rest = words[number:]
            least = lower_bound(total, k) - margin - sum(one.limit for one in rest)
            rows = np.flatnonzero(total >= least) if least > 0 else None
            if rows is not None and SHARE * len(rows) < sum(len(one.rows) for one in rest):
                scores = total[rows] + self._scores(rest, rows)
                return rows[scores >= lower_bound(scores, k) - margin]
            self._add(word, total)
        return _rows_above(total, lower_bound(total, k) - margin)

    def _word(self, number: int, weight: float) -> _Word:
        part = self._part(number)
        if number not in self._most:
            self._most[number] = float(self._saturations(number, part).max())
        weight = float(weight * self.idf[number])
        return _Word(number, weight, weight * self._most[number], self.lexical.rows[part])

    def _part(self, number: int) -> slice:
        return slice(int(self.lexical.begins[number]), int(self.lexical.begins[number + 1]))

    def _add(self, word: _Word, total: Floats) -> None:
        np.add.at(total, word.rows, word.weight * self._saturations(word.number, self._part(word.number)))

    def _scores(self, words: Sequence[_Word], rows: Rows) -> Floats:
        scores = np.zeros(len(rows))
        among = rows.astype(np.int32)  # as the postings are, for otherwise these would be copied
        for word in words:
            at = word.rows.searchsorted(among)
            at[at == len(word.rows)] = 0
            held = np.flatnonzero(word.rows[at] == among)
            counts = self.lexical.counts[self._part(word.number)][at[held]]
            scores[held] += word.weight * self._saturated(among[held], counts)
        return scores

    def _saturations(self, number: int, part: slice) -> Floats:
        known = self._kept.get(number)  # one look: another thread may clear it
        if known is not None:
            return known
        found = self._saturated(self.lexical.rows[part], self.lexical.counts[part])
        if len(found) <= HELD:
            self._held += len(found)
            if self._held > HELD:
                self._kept.clear()
                self._held = len(found)
            self._kept[number] = found
        return found

    def _saturated(self, rows: npt.NDArray[np.int32], counts: npt.NDArray[np.int32]) -> Floats:
        k1, norms = self.parameters.k1, self.norms[rows]
        if self.parameters.variant == "l":
            shifted = counts / norms + self.parameters.delta
            # The paper's numerator has no term frequency of its own; rank-bm25 multiplies by it, so we do.
            return counts * (k1 + 1) * shifted / (k1 + shifted)
        part = counts * (k1 + 1) / (counts + k1 * norms)
        return part + self.parameters.delta if self.parameters.variant == "lower_bounded" else part


def _rows_above(total: Floats, least: float) -> Rows:
    return np.flatnonzero(total >= least if least > 0 else total > 0)


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
    """The words of each chunk: begins (chunks + 1,), numbers and shares (postings,), holding (words,)."""

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
        if parameters not in self._models:
            self._models[parameters] = Bm25Scores.of(self.lexical, parameters)
        return self._models[parameters]

    @cached_property
    def of_chunks(self) -> WordsOfChunks:
        return WordsOfChunks.of(self.lexical)
