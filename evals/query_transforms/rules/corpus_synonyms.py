"""Synonyms from the corpus itself: words of the same stem, compounds, nearest vectors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from rag_assay.evals.retrieval.context import Embed
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.question_words import Language

Source = Literal["vocabulary", "vectors"]
Matrix = npt.NDArray[np.float32]
SHORTEST = 5  # letters of a word that may be a part of a compound
MOST_WORDS = 4_000  # corpus words that are embedded: the most frequent ones of two chunks or more
NEAR = 0.6  # least cosine of two words that count as synonyms


def synonyms(word: str, language: Language, count: int, index: OpenIndex) -> list[str]:
    """Return up to ``count`` corpus words of the same stem, then compounds that begin or end with the word.

    The more chunks hold a word, the earlier it comes; ties go by the alphabet.
    """
    plain = word.casefold()
    alike = [other for other in index.derived(_by_stem, language).of(plain) if other != plain]
    found = sorted(alike, key=lambda other: (-_frequency(index, other), other))
    if len(found) < count and len(plain) >= SHORTEST:
        compounds = [
            other
            for other in _vocabulary(index)
            if len(other) > len(plain) + 2
            and (other.startswith(plain) or other.endswith(plain))
            and other not in alike
        ]
        found += sorted(compounds, key=lambda other: (-_frequency(index, other), other))
    return found[:count]


def nearest(found: list[str], count: int, embed: Embed | None, index: OpenIndex) -> dict[str, list[str]]:
    """Return for each word up to ``count`` corpus words whose vectors are near its own.

    Raises:
        ValueError: there is no embedder.
    """
    if embed is None:
        raise ValueError("synonyms by vectors need the index's embedder, which the context has not")
    if not found:
        return {}
    corpus, vectors = index.derived(_embedded_words, embed)
    if not corpus:
        return {word: [] for word in found}
    scores = embed(found) @ vectors.T
    result = {}
    for word, row in zip(found, scores, strict=True):
        order = np.lexsort((np.arange(len(row)), -row))[: count + 3]
        near = [corpus[i] for i in order if row[i] >= NEAR and corpus[i] != word.casefold()]
        result[word] = near[:count]
    return result


def _embedded_words(index: OpenIndex, embed: Embed) -> tuple[list[str], Matrix]:
    corpus = [word for word in _vocabulary(index) if _frequency(index, word) >= 2 and word.isalpha()]
    corpus = sorted(corpus, key=lambda word: (-_frequency(index, word), word))[:MOST_WORDS]
    return corpus, embed(corpus) if corpus else np.zeros((0, 1), np.float32)


def _vocabulary(index: OpenIndex) -> list[str]:
    return index.lexical.words


def _frequency(index: OpenIndex, word: str) -> int:
    return len(index.lexical.postings(word)[0])


class _WordsByStem(NamedTuple):
    """The words of a corpus by their stems."""

    words: dict[str, list[str]]
    stem: Callable[[str], str]

    def of(self, word: str) -> list[str]:
        """Return the words of the same stem, sorted."""
        return self.words.get(self.stem(word), [])


def _by_stem(index: OpenIndex, language: Language) -> _WordsByStem:
    import Stemmer

    stemmer = Stemmer.Stemmer("german" if language == "de" else "english")
    groups: dict[str, list[str]] = defaultdict(list)
    for word in _vocabulary(index):
        if word.isalpha():
            groups[stemmer.stemWord(word)].append(word)
    return _WordsByStem(dict(groups), stemmer.stemWord)
