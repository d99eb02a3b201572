"""BM25 over the words of the chunks, by rank-bm25."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from assets.indexing.lexical import plain_tokens
from evals.retrieving.contract import Depth, Query, Ranking, Retriever, nothing
from evals.retrieving.index import OpenIndex

if TYPE_CHECKING:
    from rank_bm25 import BM25


class Bm25(Retriever):
    """Okapi BM25 (Robertson et al., TREC-3, 1994) as rank-bm25 computes it.

    variant: okapi | plus | l (Trotman et al., 2014, compare them)
    k1, b: saturation of term frequency, strength of length normalisation
    epsilon: okapi only; a word in more than half of the chunks gets this share of the mean idf
    delta: plus (default 1) and l (default 0.5) only; the least that a present word adds
    tokenizer: plain (lower-cased words) or stemmed (Snowball, by `language`)
    """

    code_version: ClassVar[str] = "1"

    k: Depth = 10
    variant: Literal["okapi", "plus", "l"] = "okapi"
    k1: Annotated[float, Field(gt=0)] = 1.5  # 0 would divide 0 by 0 for chunks without the word
    b: Annotated[float, Field(ge=0, le=1)] = 0.75
    epsilon: Annotated[float, Field(ge=0)] = 0.25
    delta: Annotated[float, Field(ge=0)] | None = None
    tokenizer: Literal["plain", "stemmed"] = "plain"
    language: Literal["english", "german"] = "english"

    def rank(self, query: Query, index: OpenIndex) -> Ranking:
        """Rank the chunks that share at least one word with the question."""
        if not len(index):
            return nothing()
        key = ("bm25", self.model_dump_json(exclude={"k"}))
        model = index.made(key, lambda: self._model(index))
        words = [word for word in self._tokens([plain_tokens(query.text)])[0] if word in model.idf]
        if not words:
            return nothing()
        scores = np.asarray(model.get_scores(words), np.float64)
        # BM25+ gives every chunk a score, and a score may be below zero: what counts is a shared word.
        matching = index.made(("postings", self.tokenizer, self.language), lambda: _postings(model))
        rows = np.unique(np.concatenate([matching[word] for word in set(words)]))
        rows = rows[query.permitted(rows)]
        return Ranking.best(rows, scores[rows], self.k)

    def _model(self, index: OpenIndex) -> BM25:
        import rank_bm25

        tokens = index.made(("tokens", self.tokenizer, self.language), lambda: self._tokens(_words(index)))
        if not any(tokens):
            return _NoWords()
        if self.variant == "okapi":
            return rank_bm25.BM25Okapi(tokens, k1=self.k1, b=self.b, epsilon=self.epsilon)
        if self.variant == "plus":
            return rank_bm25.BM25Plus(
                tokens, k1=self.k1, b=self.b, delta=1.0 if self.delta is None else self.delta
            )
        return rank_bm25.BM25L(tokens, k1=self.k1, b=self.b, delta=0.5 if self.delta is None else self.delta)

    def _tokens(self, texts: list[list[str]]) -> list[list[str]]:
        if self.tokenizer == "plain":
            return texts
        import Stemmer

        stemmer = Stemmer.Stemmer(self.language)
        return [stemmer.stemWords(words) for words in texts]


class _NoWords:
    """Stands for the BM25 model of chunks without a single word, which rank-bm25 cannot build."""

    idf: ClassVar[dict[str, float]] = {}


def _words(index: OpenIndex) -> list[list[str]]:
    return [plain_tokens(text) for text in index.chunks["text"]]


def _postings(model: BM25) -> dict[str, np.ndarray]:
    """Return word -> positions of the chunks that hold it."""
    postings: dict[str, list[int]] = {}
    for row, frequencies in enumerate(model.doc_freqs):
        for word in frequencies:
            postings.setdefault(word, []).append(row)
    return {word: np.array(rows, np.int64) for word, rows in postings.items()}
