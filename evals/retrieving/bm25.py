"""BM25 over the words of the chunks, as rank-bm25 computes it, at the speed of sparse postings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from evals.retrieving.analyzer import Analyzer, Tokenizer, asked_tokens
from evals.retrieving.bm25_scores import Parameters, Variant
from evals.retrieving.contract import Depth, Query, Ranking, Retriever, nothing
from evals.retrieving.expansion import Expand, Vocabulary, expanded
from evals.retrieving.feedback import Feedback, interpolated
from evals.retrieving.index import OpenIndex
from evals.word_lists import Language

DELTAS = {"okapi": 0.0, "plus": 1.0, "l": 0.5, "lower_bounded": 1.0}


class Bm25(Retriever):
    """BM25 (Robertson et al., TREC-3, 1994); okapi, plus and l score as rank-bm25 0.2.2 does.

    What is not said is what measured best over several collections (docs/retrieval-results.md).

    Only chunks that hold a word of the question are returned: rank-bm25 gives 0, or in BM25+ a constant, to
    all the others, which would fill a ranking with chunks that nothing speaks for. A word that the question
    repeats counts as often as it stands there.

    variant: okapi | plus | l (Trotman et al., 2014, compare them) | lower_bounded (BM25+ as Lv and Zhai, CIKM
        2011, publish it: only chunks that hold a word get its delta. rank-bm25's plus gives it to the others,
        too, so that delta shifts all scores alike and never changes an order)
    k1, b: saturation of term frequency, strength of length normalisation
    epsilon: okapi only; a word in more than half of the chunks gets this share of the mean idf
    delta: plus and lower_bounded (default 1) and l (default 0.5) only; the least that a present word adds
    tokenizer: plain (lower-cased words), stemmed (Snowball) or lemmatised (simplemma); both by `language`
    language: of stems, lemmas and function words
    function_words: keep | drop articles, pronouns and the like of `language`; unless said otherwise dropped
        in English, kept in German. Dropped, a question of nothing else finds nothing
    title: how often the words of a chunk's document's title are counted beside those of the chunk itself
    expand: search words of like meaning, too
    feedback: search words of the best chunks of a first search, too
    """

    kind: ClassVar[str] = "bm25"
    code_version: ClassVar[str] = "5"

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
    expand: Expand | None = None
    feedback: Feedback | None = None

    @property
    def needs_vector(self) -> bool:
        """When words are expanded by their embeddings."""
        return self.expand is not None

    def rank(self, query: Query, index: OpenIndex) -> Ranking:
        """Rank the chunks that share at least one word with the question, or with what it was widened to."""
        if not len(index):
            return nothing()
        terms = index.terms(self._analyzer, self.title)
        model = terms.bm25(self._parameters)
        plain = asked_tokens(query.text, contracted=self._analyzer.functional)
        words: Mapping[str, float] = Counter(self._analyzer.counted(plain))
        if self.expand:
            words = expanded(
                words, plain, query, index, Vocabulary(model.lexical, self._analyzer), self.expand
            )
        if self.feedback:
            # Of all chunks, whatever the query allows: a filter takes results away, and changes no other.
            first = Ranking.best(*model.score(words), self.feedback.chunks)
            words = interpolated(words, first, terms.of_chunks, self.feedback)
        rows, scores = model.score(words)
        if query.allowed is not None:
            allowed = query.permitted(rows)
            rows, scores = rows[allowed], scores[allowed]
        return Ranking.best(rows, scores, self.k)

    @property
    def _analyzer(self) -> Analyzer:
        said = self.function_words
        kept = self.language != "english" if said is None else said == "keep"
        return Analyzer(self.tokenizer, self.language, kept)

    @property
    def _parameters(self) -> Parameters:
        delta = DELTAS[self.variant] if self.delta is None else self.delta
        return Parameters(self.variant, self.k1, self.b, self.epsilon, delta)
