"""BM25 over the words of the chunks, with the variants of rank-bm25."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from rag_assay.evals.retrieval.analyzer import Analyzer, Tokenizer, question_tokens
from rag_assay.evals.retrieval.bm25_scores import Bm25Scores, Parameters, Variant
from rag_assay.evals.retrieval.context import RetrievalContext
from rag_assay.evals.retrieval.contract import Depth, Retriever, Searcher
from rag_assay.evals.retrieval.expansion import Expand, Vocabulary, expand_words
from rag_assay.evals.retrieval.feedback import RelevanceFeedback, interpolate_models
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.query import Query
from rag_assay.evals.retrieval.ranking import Ranking, nothing
from rag_assay.evals.retrieval.terms import TermIndex
from rag_assay.evals.word_lists import Language

DELTAS = {"okapi": 0.0, "plus": 1.0, "l": 0.5, "lower_bounded": 1.0}


class WordSearch(Retriever):
    """Parameters of BM25, whoever computes it.

    What is not said is what measured best over several collections (docs/retrieval-results.md).

    k1, b: saturation of term frequency, strength of length normalisation
    epsilon: okapi only; a word in more than half of the chunks gets this share of the mean idf
    delta: plus and lower_bounded (default 1) and l (default 0.5) only; the least that a present word adds
    tokenizer: plain (lower-cased words), stemmed (Snowball) or lemmatised (simplemma); both by `language`
    language: of stems, lemmas and function words
    function_words: keep | drop articles, pronouns and the like of `language`; unless said otherwise dropped
        in English, kept in German. Dropped, a question of nothing else finds nothing
    title: how often the words of a chunk's document's title are counted beside those of the chunk itself
    """

    k: Depth = 10
    variant: Variant = "okapi"
    k1: Annotated[float, Field(gt=0, le=100)] = 1.5
    b: Annotated[float, Field(ge=0, le=1)] = 0.75
    epsilon: Annotated[float, Field(ge=0, le=1)] = 0.25
    delta: Annotated[float, Field(ge=0, le=100)] | None = None
    tokenizer: Tokenizer = "stemmed"
    language: Language = "english"
    function_words: Literal["keep", "drop"] | None = None
    title: Annotated[int, Field(ge=0, le=10)] = 1

    @property
    def analyzer(self) -> Analyzer:
        """How words are told apart."""
        kept = self.language != "english" if self.function_words is None else self.function_words == "keep"
        return Analyzer(self.tokenizer, self.language, kept)

    @property
    def parameters(self) -> Parameters:
        """What scores are computed by."""
        delta = DELTAS[self.variant] if self.delta is None else self.delta
        return Parameters(self.variant, self.k1, self.b, self.epsilon, delta)


class Bm25(WordSearch):
    """BM25 (Robertson et al., TREC-3, 1994); okapi, plus and l score as rank-bm25 0.2.2 does.

    Only chunks that hold a word of the question are returned: rank-bm25 gives 0, or in BM25+ a constant, to
    all the others, which would fill a ranking with chunks that nothing speaks for. A word that the question
    repeats counts as often as it stands there.

    variant: okapi | plus | l (Trotman et al., 2014, compare them) | lower_bounded (BM25+ as Lv and Zhai, CIKM
        2011, publish it: only chunks that hold a word get its delta. rank-bm25's plus gives it to the others,
        too, so that delta shifts all scores alike and never changes an order)
    expand: search words of like meaning, too
    feedback: search words of the best chunks of a first search, too
    """

    kind: ClassVar[str] = "bm25"
    code_version: ClassVar[str] = "5"

    expand: Expand | None = None
    feedback: RelevanceFeedback | None = None

    @property
    def needs_vector(self) -> bool:
        """When words are expanded by their embeddings."""
        return self.expand is not None

    def open(self, index: OpenIndex, context: RetrievalContext) -> Searcher:
        """Search the index by words."""
        return _Bm25Searcher(self, index, context)


class _Bm25Searcher(Searcher):
    """Words are counted and weighted once for each index: the index keeps them for all that search so."""

    def __init__(self, recipe: Bm25, index: OpenIndex, context: RetrievalContext) -> None:
        self._recipe, self._index, self._context = recipe, index, context
        self._analyzer = recipe.analyzer

    @cached_property
    def _terms(self) -> TermIndex:
        return self._index.terms(self._analyzer, self._recipe.title)

    @cached_property
    def _model(self) -> Bm25Scores:
        return self._terms.bm25(self._recipe.parameters)

    def search(self, query: Query) -> Ranking:
        """Rank the chunks that share at least one word with the question, or with what it was widened to."""
        if not len(self._index):
            return nothing()
        rows, scores = self._model.score(self._words(query))
        if query.allowed is not None:
            allowed = query.permitted(rows)
            rows, scores = rows[allowed], scores[allowed]
        return Ranking.best(rows, scores, self._recipe.k)

    def _words(self, query: Query) -> Mapping[str, float]:
        """Return the words that are searched, and what each counts."""
        expand, feedback = self._recipe.expand, self._recipe.feedback
        plain = question_tokens(query.text, contracted=self._analyzer.functional)
        words: Mapping[str, float] = Counter(self._analyzer.counted(plain))
        if expand:
            vocabulary = Vocabulary(self._terms.lexical, self._analyzer)
            words = expand_words(words, plain, self._context.embed, self._index, vocabulary, expand)
        if feedback:
            # Of all chunks, whatever the query allows: a filter takes results away, and changes no other.
            first = Ranking.best(*self._model.score(words), feedback.chunks)
            words = interpolate_models(words, first, self._terms.of_chunks, feedback)
        return words
