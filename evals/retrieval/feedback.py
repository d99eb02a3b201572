"""Pseudo-relevance feedback: searches again with words of the best chunks of a first search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import numpy as np
from pydantic import Field

from rag_assay.evals.retrieval.ranking import Ranking
from rag_assay.evals.retrieval.terms import WordsOfChunks
from rag_assay.warehouse.recipe import Strict


class RelevanceFeedback(Strict):
    """RM3 (Abdul-Jaleel et al., TREC 2004): the question mixed with a relevance model of its best chunks
    (Lavrenko and Croft, SIGIR 2001).

    chunks: how many of the first search's best chunks are believed to be relevant
    words: how many of their words are added
    original: share of the question's own words in the second question; the rest are the added ones. With the
        usual 0.5, nDCG@10 fell on three of six collections, by up to 0.05; with 0.9 on none significantly
        (docs/retrieval-results.md)
    common: a word in a larger share of the chunks than this, and in more than ten, is not added
    """

    chunks: Annotated[int, Field(ge=1, le=100)] = 10
    words: Annotated[int, Field(ge=1, le=200)] = 10
    original: Annotated[float, Field(gt=0, lt=1)] = 0.9
    common: Annotated[float, Field(gt=0, le=1)] = 0.1


def interpolate_models(
    words: Mapping[str, float], ranking: Ranking, corpus: WordsOfChunks, recipe: RelevanceFeedback
) -> dict[str, float]:
    """Mix the question with the relevance model of the best chunks; the weights add up to the question's own.

    Each chunk speaks by its share of the scores: P(word) = sum of score / total * count / length.
    """
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
