"""BM25 over the words of the chunks, with the variants of rank-bm25."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, NamedTuple, Self, TypeAlias

import numpy as np
from pydantic import Field, model_validator

from rag_assay.assets.indexing.lexical import Lexical
from rag_assay.assets.tokenization.stems import Language
from rag_assay.evals.retrieval.analyzer import Analyzer, Tokenizer, lemma_code, question_tokens
from rag_assay.evals.retrieval.contract import Depth, IndexRetriever, Retriever
from rag_assay.evals.retrieval.terms import Parameters, Variant, WordsOfChunks
from rag_assay.warehouse.recipe import Strict, nested_recipes

if TYPE_CHECKING:
    import numpy.typing as npt

    from rag_assay.evals.retrieval.context import Embed, RetrievalContext
    from rag_assay.evals.retrieval.index import OpenIndex
    from rag_assay.evals.retrieval.query import Query
    from rag_assay.evals.retrieval.ranking import Ranking


class RelevanceFeedback(Strict):
    """RM3 (Abdul-Jaleel et al., TREC 2004): the question mixed with a relevance model of its best chunks
    (Lavrenko and Croft, SIGIR 2001).

    words: how many are added
    chunks: how many of the first search's best chunks are believed to be relevant
    original: share of the question's own words in the second question; the rest are the added ones. With the
        usual 0.5, nDCG@10 fell on three of six collections, by up to 0.05; with 0.9 on none significantly
        (docs/proof.md)
    common: a word in a larger share of the chunks than this, and in more than ten, is not added
    """

    chunks: Annotated[int, Field(ge=1, le=100)] = 10
    words: Annotated[int, Field(ge=1, le=200)] = 10
    original: Annotated[float, Field(gt=0, lt=1)] = 0.9
    common: Annotated[float, Field(gt=0, le=1)] = 0.1


def interpolate_models(
    words: Mapping[str, float], ranking: Ranking, corpus: WordsOfChunks, recipe: RelevanceFeedback
) -> dict[str, float]:
    """Mix the question with the relevance model of the best chunks, each by its share of the scores."""
    best = ranking.rows[: recipe.chunks]
    scores = np.maximum(ranking.scores[: recipe.chunks], 0.0)
    total = float(scores.sum())
    if total <= 0:
        return dict(words)
    parts = [corpus.chunk(int(row)) for row in best]
    numbers = np.concatenate([corpus.numbers[part] for part in parts])
    counts = np.concatenate(
        [corpus.shares[part] * (score / total) for part, score in zip(parts, scores, strict=True)]
    )
    limit = max(recipe.common * len(corpus.lexical.lengths), 10.0)
    distinct, inverse = np.unique(numbers, return_inverse=True)
    model = np.bincount(inverse, weights=counts, minlength=len(distinct))
    rare = corpus.holding[distinct] <= limit
    distinct, model = distinct[rare], model[rare]
    order = np.lexsort((distinct, -model))[: recipe.words]
    mass, of_question = float(model[order].sum()), sum(words.values())
    if not mass:
        return dict(words)
    mixed = {word: recipe.original * weight for word, weight in words.items()}
    for at in order:
        word = corpus.lexical.words[distinct[at]]
        mixed[word] = mixed.get(word, 0.0) + (1 - recipe.original) * of_question * float(model[at]) / mass
    return mixed


Vectors: TypeAlias = "npt.NDArray[np.float32]"
DECIMALS = 6  # of a cosine that are kept: below them, it depends on the order in which a processor adds


class Expand(Strict):
    """Search, beside each word of the question, the corpus' words that are nearest to it by embedding.

    words: so many for each word of the question; only the first 128 different words are expanded
    similarity: least cosine of a found word
    weight: what a found word counts, times its cosine; a word of the question itself counts 1
    only_unknown: only for words that the corpus lacks, which would otherwise find nothing
    vocabulary: how many of the corpus' words are candidates, the most frequent first, of those that stand in
        two chunks at least; each is embedded once for each embedder
    """

    most: ClassVar[int] = 200_000
    max_words: ClassVar[int] = 128

    words: Annotated[int, Field(ge=1, le=50)] = 3
    weight: Annotated[float, Field(gt=0, le=1)] = 0.3
    similarity: Annotated[float, Field(ge=0, lt=1)] = 0.5
    only_unknown: bool = False
    vocabulary: Annotated[int, Field(ge=1, le=most)] = 20_000


class Vocabulary(NamedTuple):
    """What a retriever searches: postings, and the analyzer that they are counted by."""

    lexical: Lexical
    analyzer: Analyzer


class Candidates(NamedTuple):
    """The corpus' words that may be added; vectors: of unit length, shape (words, dimensions)"""

    words: list[str]
    places: dict[str, int]
    vectors: Vectors


def expand_words(
    words: Mapping[str, float],
    plain: Sequence[str],
    embed: Embed | None,
    index: OpenIndex,
    vocabulary: Vocabulary,
    recipe: Expand,
) -> dict[str, float]:
    """Add words of like meaning to the searched ones (form -> weight); the question's own keep theirs."""
    if embed is None:
        raise ValueError("`expand` needs an embedder for the words of the question")
    searched = _to_expand(plain, vocabulary, recipe)[: recipe.max_words]
    known = index.derived(embed_candidates, embed, vocabulary.analyzer.function_words, recipe.vocabulary)
    if not searched or not known.words:
        return dict(words)
    found: dict[str, float] = {}
    for word in searched:
        cosines = (known.vectors @ _vector(word, known, embed)).round(DECIMALS)
        for neighbour, cosine in _nearest(word, cosines, known.words, recipe, vocabulary):
            found[neighbour] = max(found.get(neighbour, 0.0), recipe.weight * cosine)
    return {**found, **words}


def _vector(word: str, known: Candidates, embed: Embed) -> Vectors:
    """Return a word's vector, at hand or embedded by itself: a batch would change its last bits."""
    if word in known.places:
        return known.vectors[known.places[word]]
    return embed([word])[0]


def _to_expand(plain: Sequence[str], vocabulary: Vocabulary, recipe: Expand) -> list[str]:
    ignored = vocabulary.analyzer.function_words
    searched = [word for word in dict.fromkeys(plain) if word not in ignored]
    if not recipe.only_unknown:
        return searched
    forms = vocabulary.analyzer.forms(searched)
    return [
        word
        for word, form in zip(searched, forms, strict=True)
        if form is not None and form not in vocabulary.lexical.numbers
    ]


def _nearest(
    word: str, cosines: Vectors, known: Sequence[str], recipe: Expand, vocabulary: Vocabulary
) -> list[tuple[str, float]]:
    its_form = vocabulary.analyzer.forms([word])[0]
    # A lexicon holds several words of one form (study, studies), so that more are looked at than are kept.
    looked_at = min(8 * recipe.words + 8, len(known))
    near = np.flatnonzero(cosines >= np.partition(cosines, len(known) - looked_at)[len(known) - looked_at])
    order = near[np.argsort(-cosines[near], kind="stable")]
    found: dict[str, float] = {}
    for at in order:
        if cosines[at] < recipe.similarity or len(found) == recipe.words:
            break
        form = vocabulary.analyzer.forms([known[at]])[0]
        if form is not None and form != its_form and known[at] != word:
            found.setdefault(form, float(cosines[at]))
    return list(found.items())


def embed_candidates(index: OpenIndex, embed: Embed, ignored: frozenset[str], limit: int) -> Candidates:
    words = _candidates(index.lexical, ignored, limit)
    places = {word: place for place, word in enumerate(words)}
    return Candidates(words, places, embed(words) if words else np.zeros((0, 0), np.float32))


def _candidates(lexical: Lexical, ignored: frozenset[str], limit: int) -> list[str]:
    """Return words that stand in two chunks or more and hold a letter, most frequent first.

    >>> from rag_assay.assets.indexing.lexical import lexical_of
    >>> _candidates(lexical_of(["the ferry 1987 quay", "the ferry 1987 noon"]), frozenset({"the"}), 10)
    ['ferry']
    """
    holding = np.diff(lexical.begins)
    order = np.argsort(-holding, kind="stable")
    often = (lexical.words[at] for at in order[: int((holding >= 2).sum())])
    words = (word for word in often if word not in ignored and not word.isnumeric())
    return [word for word, _ in zip(words, range(limit), strict=False)]


DELTAS = {"okapi": 0.0, "plus": 1.0, "l": 0.5, "lower_bounded": 1.0}


class WordSearch(IndexRetriever):
    """Parameters of BM25 in every implementation.

    Defaults are the best values over several collections (docs/proof.md).

    k1, b: saturation of term frequency, strength of length normalisation
    epsilon: okapi only; a word in more than half of the chunks gets this share of the mean idf
    delta: plus and lower_bounded (default 1) and l (default 0.5) only; the least that a present word adds
    tokenizer: plain (lower-cased words), stemmed (Snowball) or lemmatised (simplemma); both by `language`
    language: of stems, lemmas and function words; default: that of most of the text, whose words count as
        they stand if it has no stems (Chinese, Thai); English where it is not known
    function_words: keep | drop articles, pronouns and the like (of English and German); default: drop
        in English, kept in all others. Dropped, a question of nothing else finds nothing
    title: how often the words of a chunk's document's title are counted beside those of the chunk itself
    """

    k: Depth = 10
    variant: Variant = "okapi"
    k1: Annotated[float, Field(gt=0, le=100)] = 1.5
    b: Annotated[float, Field(ge=0, le=1)] = 0.75
    epsilon: Annotated[float, Field(ge=0, le=1)] = 0.25
    delta: Annotated[float, Field(ge=0, le=100)] | None = None
    tokenizer: Tokenizer = "stemmed"
    language: Language | None = None
    function_words: Literal["keep", "drop"] | None = None
    title: Annotated[int, Field(ge=0, le=10)] = 1

    @model_validator(mode="after")
    def _has_lemmas(self) -> Self:
        if self.tokenizer == "lemmatised" and self.language and not lemma_code(self.language):
            raise ValueError(f"there is no dictionary of {self.language} lemmas; set `tokenizer: stemmed`")
        return self

    def analyzer(self, index: OpenIndex) -> Analyzer:
        return self.analyzer_of(index.stems if self.language is None else self.language)

    def analyzer_of(self, language: Language | None) -> Analyzer:
        kept = language != "english" if self.function_words is None else self.function_words == "keep"
        return Analyzer(self.tokenizer, language, kept)

    @property
    def parameters(self) -> Parameters:
        delta = DELTAS[self.variant] if self.delta is None else self.delta
        return Parameters(self.variant, self.k1, self.b, self.epsilon, delta)


class Bm25(WordSearch):
    """BM25 (Robertson et al., TREC-3, 1994); okapi, plus and l score as rank-bm25 0.2.2 does.

    Only chunks that hold a word of the question are returned: rank-bm25 gives 0, or in BM25+ a constant, to
    all the others, which would fill a ranking with chunks that nothing speaks for. A word that the question
    repeats counts as often as it occurs.

    variant: okapi | plus | l (Trotman et al., 2014, compare them) | lower_bounded (BM25+ as Lv and Zhai, CIKM
        2011, publish it: only chunks that hold a word get its delta. rank-bm25's plus gives it to the others,
        too, so that delta shifts all scores alike and never changes an order)
    expand: search words of like meaning, too
    feedback: search words of the best chunks of a first search, too
    """

    kind: ClassVar[str] = "bm25"
    code_version: ClassVar[str] = "6"

    expand: Expand | None = None
    feedback: RelevanceFeedback | None = None

    @property
    def needs_vector(self) -> bool:
        return self.expand is not None

    def rank(self, query: Query, index: OpenIndex, context: RetrievalContext) -> Ranking:
        analyzer = self.analyzer(index)
        terms = index.terms(analyzer, self.title)
        model = terms.bm25(self.parameters)
        plain = question_tokens(query.text, contracted=analyzer.functional)
        words: Mapping[str, float] = Counter(analyzer.counted(plain))
        if self.expand:
            vocabulary = Vocabulary(terms.lexical, analyzer)
            words = expand_words(words, plain, context.embed, index, vocabulary, self.expand)
        if self.feedback:
            # Of all chunks, whatever the query allows: a filter takes results away, and changes no other.
            first = model.best(words, self.feedback.chunks)
            words = interpolate_models(words, first, terms.of_chunks, self.feedback)
        return model.best(words, self.k, query.allowed)


def word_searches(retrievers: Iterable[Retriever]) -> Iterator[WordSearch]:
    return (one for one in nested_recipes(list(retrievers)) if isinstance(one, WordSearch))
