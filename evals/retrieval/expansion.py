"""Query expansion: adds the corpus words nearest by embedding to the words of a question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field

from rag_assay.assets.indexing.lexical import Lexical
from rag_assay.evals.retrieval.analyzer import Analyzer
from rag_assay.evals.retrieval.context import Embed
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.word_lists import Language, function_words
from rag_assay.warehouse.recipe import Strict

Vectors = npt.NDArray[np.float32]
DECIMALS = 6  # of a cosine that are kept: below them, it hangs on the order in which a processor adds


class Expand(Strict):
    """Search, beside each word of the question, the corpus' words that are nearest to it by embedding.

    words: how many for each word
    weight: what a found word counts, times its cosine; a word of the question itself counts 1
    similarity: the least cosine at which a word is taken
    only_unknown: only for words that the corpus lacks, which would otherwise find nothing
    vocabulary: how many of the corpus' words are candidates, the most frequent first, of those that stand in
        two chunks at least; each is embedded once for each embedder

    The first 128 different words of a question are looked at.
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
    """The corpus' words that may be added.

    places: word -> its place in `words`
    vectors: of unit length, shape (words, dimensions)
    """

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
    """Add words of like meaning to the words that are searched.

    words: form -> weight, as the question says them
    plain: the question's words as they stand
    embed: the index's embedder

    A word that two words of the question lead to gets the larger weight; one that the question says itself
    keeps its own.

    Raises:
        ValueError: there is no embedder.
    """
    if embed is None:
        raise ValueError("`expand` needs an embedder for the words of the question")
    searched = _to_expand(plain, vocabulary, recipe)[: recipe.max_words]
    known = index.derived(embed_candidates, embed, vocabulary.analyzer.language, recipe.vocabulary)
    if not searched or not known.words:
        return dict(words)
    found: dict[str, float] = {}
    for word in searched:
        cosines = (known.vectors @ _vector(word, known, embed)).round(DECIMALS)
        for neighbour, cosine in _nearest(word, cosines, known.words, recipe, vocabulary):
            found[neighbour] = max(found.get(neighbour, 0.0), recipe.weight * cosine)
    return {**found, **words}


def _vector(word: str, known: Candidates, embed: Embed) -> Vectors:
    """Return a word's vector, shape (dimensions,): the one at hand, or else embedded by itself.

    Together with others it would come out a little different, by what else the questions before it had asked.
    """
    if word in known.places:
        return known.vectors[known.places[word]]
    return embed([word])[0]


def _to_expand(plain: Sequence[str], vocabulary: Vocabulary, recipe: Expand) -> list[str]:
    ignored = function_words(vocabulary.analyzer.language)
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
    """Return the forms nearest to a word, with their cosines; its own form is none of them."""
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


def embed_candidates(index: OpenIndex, embed: Embed, language: Language, limit: int) -> Candidates:
    """Return the corpus' words that may be added, embedded."""
    words = _candidates(index.lexical, function_words(language), limit)
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
