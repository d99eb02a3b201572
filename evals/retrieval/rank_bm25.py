"""BM25 by the library rank-bm25 itself: the reference that `bm25` is held against."""

from __future__ import annotations

from itertools import repeat
from typing import Any, ClassVar, Literal

import numpy as np

from rag_assay.assets.indexing.lexical import Lexical
from rag_assay.evals.retrieval.analyzer import Analyzer, question_tokens
from rag_assay.evals.retrieval.bm25 import WordSearch
from rag_assay.evals.retrieval.context import RetrievalContext
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.query import Query
from rag_assay.evals.retrieval.ranking import Ranking, nothing
from rag_assay.evals.retrieval.terms import Parameters


class RankBm25(WordSearch):
    """BM25 by rank-bm25 0.2.2, to check `bm25` against: the same chunks and scores, thirty times slower.

    Like `bm25` it returns only chunks that hold a word of the question. The words are those that `bm25`
    counts; what it makes of them is the library's own.

    variant: okapi (BM25Okapi) | plus (BM25Plus) | l (BM25L)
    """

    kind: ClassVar[str] = "rank_bm25"
    code_version: ClassVar[str] = "2"

    variant: Literal["okapi", "plus", "l"] = "okapi"

    def rank(self, query: Query, index: OpenIndex, context: RetrievalContext) -> Ranking:
        analyzer = self.analyzer(index)
        lexical = index.terms(analyzer, self.title).lexical
        words = analyzer.counted(question_tokens(query.text, contracted=analyzer.functional))
        holding = [lexical.postings(word)[0] for word in set(words)]
        rows = np.unique(np.concatenate(holding)).astype(np.int64) if holding else nothing().rows
        rows = rows[query.permitted(rows)]
        if not len(rows):
            return nothing()
        model = index.derived(_model, analyzer, self.title, self.parameters)
        return Ranking.best(rows, model.get_scores(words)[rows], self.k)


def _model(index: OpenIndex, analyzer: Analyzer, title: int, parameters: Parameters) -> Any:
    import rank_bm25

    corpus = tokens_of_chunks(index.terms(analyzer, title).lexical)
    shared = {"k1": parameters.k1, "b": parameters.b}
    if parameters.variant == "okapi":
        return rank_bm25.BM25Okapi(corpus, epsilon=parameters.epsilon, **shared)
    library = rank_bm25.BM25Plus if parameters.variant == "plus" else rank_bm25.BM25L
    return library(corpus, delta=parameters.delta, **shared)


def tokens_of_chunks(lexical: Lexical) -> list[list[str]]:
    found: list[list[str]] = [[] for _ in lexical.lengths]
    for word in lexical.words:
        for row, count in zip(*map(np.ndarray.tolist, lexical.postings(word)), strict=True):
            found[row].extend(repeat(word, count))
    return found
